'use strict';
{
  const root = document.documentElement;
  const button = document.getElementById('theme');
  const themes = ['system', 'light', 'dark'];
  // A page from a file may have no storage.
  const stored = (change) => {
    try {
      return change(window.localStorage);
    } catch {
      return null;
    }
  };
  let theme = 'system';
  const show = (wanted) => {
    theme = themes.includes(wanted) ? wanted : 'system';
    if (theme === 'system') delete root.dataset.theme;
    else root.dataset.theme = theme;
    button.textContent = `Theme: ${theme}`;
  };
  show(stored((storage) => storage.getItem('pilotlight-lab-theme')));
  button.hidden = false;
  button.addEventListener('click', () => {
    show(themes[(themes.indexOf(theme) + 1) % themes.length]);
    stored((storage) => storage.setItem('pilotlight-lab-theme', theme));
  });

  // Rows without a number go last, whatever the direction.
  const sort = (table, column, direction) => {
    const body = table.tBodies[0];
    const value = (row) => Number.parseFloat(row.cells[column].dataset.value ?? 'NaN');
    const compare = (one, other) => {
      const [a, b] = [value(one), value(other)];
      return Number.isNaN(a) - Number.isNaN(b) || (Number.isNaN(a) ? 0 : direction * (a - b));
    };
    body.append(...[...body.rows].sort(compare));
  };
  for (const table of document.querySelectorAll('table')) {
    const headings = [...table.tHead.rows[0].cells];
    headings.forEach((heading, column) => {
      if (!table.tBodies[0].querySelector(`td:nth-child(${column + 1})[data-value]`)) return;
      const order = document.createElement('button');
      order.type = 'button';
      order.title = 'Sort by this column';
      order.append(...heading.childNodes);
      heading.append(order);
      order.addEventListener('click', () => {
        const rising = heading.ariaSort !== 'ascending';
        headings.forEach((other) => other.removeAttribute('aria-sort'));
        heading.setAttribute('aria-sort', rising ? 'ascending' : 'descending');
        sort(table, column, rising ? 1 : -1);
      });
    });
  }

  // Paper has no way to open what is closed.
  let closed = [];
  window.addEventListener('beforeprint', () => {
    closed = [...document.querySelectorAll('details:not([open])')];
    closed.forEach((details) => { details.open = true; });
  });
  window.addEventListener('afterprint', () => closed.forEach((details) => { details.open = false; }));
}
