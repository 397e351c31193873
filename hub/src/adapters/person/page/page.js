// The page works without this. With it, it shows what changes, says when the hub has ended, and is dead
// again for a moment whenever it comes to the front.
'use strict';
(() => {
  const { body } = document;
  const key = `open:${location.pathname}`;
  const folded = () => Array.from(document.querySelectorAll('details'));

  // What was unfolded stays so when the page is drawn anew.
  const kept = (sessionStorage.getItem(key) || '').split(',');
  folded().forEach((one, at) => { if (kept.includes(`${at}:${one.textContent.length}`)) one.open = true; });
  addEventListener('pagehide', () => {
    const open = folded().flatMap((one, at) => (one.open ? [`${at}:${one.textContent.length}`] : []));
    sessionStorage.setItem(key, open.join(','));
  });

  const wake = () => body.classList.toggle('again');
  addEventListener('focus', wake);
  document.addEventListener('visibilitychange', () => { if (!document.hidden) wake(); });

  const ended = document.getElementById('ended');
  if (!body.dataset.events) return;
  const events = new EventSource(body.dataset.events);
  events.addEventListener('open', () => { ended.hidden = true; });
  events.addEventListener('error', () => { ended.hidden = false; });
  events.addEventListener('message', (event) => {
    if (event.data !== body.dataset.version) location.reload();
  });
})();
