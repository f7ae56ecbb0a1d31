// What mdBook's page lacks: two themes instead of five, names of regions, and scrolling by the keyboard.
'use strict';

(() => {
  const byId = (id) => document.getElementById(`mdbook-${id}`);

  for (const theme of ['rust', 'coal', 'ayu']) byId(`theme-${theme}`)?.parentElement.remove();
  const dark = byId('theme-navy');
  if (dark) dark.textContent = 'Dark';
  // A theme that is gone may have been stored by another book at the same place.
  const { classList } = document.documentElement;
  if (!classList.contains('light') && !classList.contains('navy')) dark?.click();

  // Each page has one heading of the first level: its own.
  const title = document.querySelector('.menu-title');
  if (title) {
    const home = document.createElement('div');
    home.className = 'menu-title';
    home.textContent = title.textContent;
    title.replaceWith(home);
  }
  byId('menu-bar')?.setAttribute('role', 'banner');
  byId('search-wrapper')?.setAttribute('role', 'search');
  byId('searchbar')?.setAttribute('aria-label', 'Search');

  // A label is no button for the keyboard, nor for who reads the page aloud.
  const label = byId('sidebar-toggle');
  const checkbox = byId('sidebar-toggle-anchor');
  if (label && checkbox) {
    const button = document.createElement('button');
    for (const name of ['id', 'class', 'title', 'aria-label', 'aria-controls']) button.setAttribute(name, label.getAttribute(name));
    button.type = 'button';
    button.append(...label.childNodes);
    const { classList: classes } = document.documentElement;
    const tell = () => button.setAttribute('aria-expanded', String(classes.contains('sidebar-visible')));
    // mdBook listens to both; a label that is in no document toggles nothing by itself.
    button.addEventListener('click', () => {
      label.click();
      checkbox.click();
    });
    new MutationObserver(tell).observe(document.documentElement, { attributeFilter: ['class'] });
    label.replaceWith(button);
    tell();
  }

  // Markdown has no table without a head: one without words is none.
  for (const cell of document.querySelectorAll('main th:empty')) {
    const head = cell.closest('thead');
    if (head && !head.textContent.trim()) head.remove();
    else cell.replaceWith(document.createElement('td'));
  }

  const scrolls = (element) => element.scrollWidth > element.clientWidth;
  const reach = () => {
    for (const element of document.querySelectorAll('pre > code, .table-wrapper')) {
      if (scrolls(element)) element.tabIndex = 0;
      else element.removeAttribute('tabindex');
    }
  };
  reach();
  window.addEventListener('resize', reach);
})();
