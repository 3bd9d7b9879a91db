// Added by `workbench serve`; not in the file. A hidden tab does not listen, because a
// browser keeps few connections to one host and every open tab would hold one of them.
(() => {
  const page = "@PAGE@", shown = "@STATE@";
  let source = null;
  const tell = (text) => {
    let box = document.getElementById("workbench-live");
    if (!box) {
      box = document.createElement("p");
      box.id = "workbench-live";
      box.setAttribute("role", "status");
      box.style.cssText =
        "position:fixed;inset:auto 0 0;margin:0;padding:8px 16px;z-index:99;white-space:pre-wrap;" +
        "font:13px/1.5 system-ui,sans-serif;background:#7a2e14;color:#fff";
      document.body.append(box);
    }
    box.textContent = text;
    box.hidden = !text;
  };
  const listen = () => {
    if (document.hidden) {
      if (source) source.close();
      source = null;
    } else if (!source) {
      source = new EventSource(page);
      source.onmessage = (event) => {
        const news = JSON.parse(event.data);
        if (news.state !== shown) location.reload();
        else tell(news.problem);
      };
    }
  };
  document.addEventListener("visibilitychange", listen);
  addEventListener("pagehide", () => source && source.close());
  listen();
})();
