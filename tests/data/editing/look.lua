-- Opens two versions in Neovim's own client, and writes what it is told to $OUT, a line each.
local out = {}
local command = vim.fn.json_decode(vim.env.COMMAND)
vim.cmd("edit kernels/sgemm/v3_padded.cu")
local id = vim.lsp.start_client({ name = "workbench", cmd = command, root_dir = vim.fn.getcwd() })
vim.lsp.buf_attach_client(0, id)
vim.wait(60000, function() local one = vim.lsp.get_client_by_id(id); return one and one.initialized end, 50)
local document = { uri = vim.uri_from_bufnr(0) }
local whole = { start = { line = 0, character = 0 }, ["end"] = { line = 999, character = 0 } }
local function ask(method, params)
  params.textDocument = document
  for _, answer in pairs(vim.lsp.buf_request_sync(0, method, params, 60000) or {}) do
    table.insert(out, method .. " " .. vim.fn.json_encode(answer.result))
  end
end
ask("textDocument/inlayHint", { range = whole })
ask("textDocument/hover", { position = { line = 50, character = 0 } })
ask("textDocument/codeLens", {})
vim.cmd("edit kernels/sgemm/v4_thread_tile.cu")
vim.lsp.buf_attach_client(0, id)
vim.wait(60000, function() return #vim.diagnostic.get(0) > 0 end, 50)
for _, each in ipairs(vim.diagnostic.get(0)) do
  table.insert(out, "line " .. (each.lnum + 1) .. ": " .. each.message)
end
vim.fn.writefile(out, vim.env.OUT)
vim.lsp.stop_client(id)
vim.wait(5000, function() return not vim.lsp.get_client_by_id(id) end, 50)
vim.cmd("qall!")
