/* Code and tables that scroll sideways are reached by keyboard. The theme wraps tables after loading, so changes are observed. */
const makeFocusable = () =>
  document.querySelectorAll("pre code, .md-typeset__scrollwrap, .result").forEach(region => {
    if (region.scrollWidth > region.clientWidth) region.tabIndex = 0
  })
new MutationObserver(makeFocusable).observe(document.body, { childList: true, subtree: true })
addEventListener("resize", makeFocusable)
makeFocusable()
