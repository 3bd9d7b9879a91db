// Added by `workbench serve`; not in the file. A hidden tab does not ask.
(() => {
  const address = "@NEWS@", shown = "@STATE@";
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
  setInterval(async () => {
    if (document.hidden) return;
    const answer = await fetch(address).catch(() => null);  // null: the server has ended
    const news = answer && answer.ok && await answer.json();
    if (news && news.state !== shown) location.reload();
    else if (news) tell(news.problem);
  }, 500);
})();
