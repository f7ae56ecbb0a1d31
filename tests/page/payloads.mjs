// Texts that would run, load or become something if a page took them for more than text.

const script = 'window.top.ran=(window.top.ran||0)+1';
const tags = ['script', 'img', 'svg', 'iframe', 'object', 'embed', 'video', 'audio', 'body', 'details', 'input', 'marquee', 'math', 'form', 'link', 'style', 'base', 'meta', 'template', 'dialog', 'a'];
const events = ['onerror', 'onload', 'onfocus', 'ontoggle', 'onanimationstart', 'onpointerover', 'onbegin', 'onstart'];
const closers = ['', '"', "'", '>', '">', "'>", '</script>', '</style>', '</pre>', '</title>', '</textarea>', '-->', ']]>', '</dd></dl>', '`', '${', '{{', '\\', '\u2028'];

/** Some hundreds of them, the same each time. */
export const payloads = [
  ...closers.map((closer) => `${closer}<script>${script}</script>`),
  ...closers.flatMap((closer) => [`${closer}<img src=x onerror=${script}>`, `${closer}<svg/onload=${script}>`]),
  ...tags.flatMap((tag) => events.map((event) => `<${tag} ${event}="${script}" src=x href=x autofocus open>`)),
  `javascript:${script}`, `<a href="javascript:${script}">x</a>`, `<iframe srcdoc="<script>${script}</script>">`,
  `<meta http-equiv=refresh content="0;url=javascript:${script}">`, '<base href="//attacker.invalid/">', '<link rel=stylesheet href=//attacker.invalid/x.css>',
  '<style>*{background:url(//attacker.invalid/x)}</style>', '<img src=//attacker.invalid/x>', "${alert(1)}", "{{constructor.constructor('alert(1)')()}}",
  '__proto__', 'constructor', 'hasOwnProperty', 'toString', '<plaintext>', '<!--', '<![CDATA[', '&lt;script&gt;', '&#60;script&#62;', '%3Cscript%3E',
  'data: {"full":true,"services":[]}', 'event: message', '{"missed":1}', '\\n\\ndata: {}', '\u202etxt.exe', '\u200b\u2066\u0000\u001b[2J\u001b]0;x\u0007', '\ufeff\ud83d\ude00', 'x'.repeat(3000),
];
