// Starts `workbench serve lsp`, and runs the commands of its lenses as tasks: without a shell, so that no
// name of a version is read as one.
const vscode = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

exports.activate = async (context) => {
  const settings = vscode.workspace.getConfiguration("workbench");
  const command = settings.get("command");
  const run = ([, ...words]) => {
    const folder = vscode.workspace.workspaceFolders?.[0];
    const cwd = folder?.uri.fsPath;
    const execution = new vscode.ProcessExecution(command, words, { cwd });
    const name = `workbench ${words.join(" ")}`;
    const scope = folder ?? vscode.TaskScope.Workspace;
    return vscode.tasks.executeTask(new vscode.Task({ type: "process" }, scope, name, "workbench", execution));
  };
  context.subscriptions.push(vscode.commands.registerCommand("workbench.run", run));
  client = new LanguageClient(
    "workbench",
    "workbench",
    { command, args: ["serve", "lsp"] },
    {
      documentSelector: [{ scheme: "file", pattern: "**/*.{cu,cuh,h,hh,hpp,inl,c,cc,cpp,cxx,py}" }],
      initializationOptions: Object.fromEntries(
        ["verify", "timeout", "reports"].map((name) => [name, settings.get(name)]),
      ),
    },
  );
  await client.start();
};

exports.deactivate = () => client?.stop();
