"""What the servers of applications share: how an application is named, and how parts of a request are read."""

import sys


def load(name, attribute="application", kind="WSGI"):
    """The application named `module:attribute`."""
    module, _, named = name.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")  # as `python -m` does: the application is found in the working directory
    __import__(module)
    target = sys.modules[module]
    for part in (named or attribute).split("."):
        target = getattr(target, part)
    if not callable(target):
        raise TypeError(f"{name} is a {type(target).__name__}, which is no {kind} application")
    return target


def command_line(arguments, options, usage):
    """The one name among the arguments; sets in `options` what else they say. A flag's default is False."""
    rest, names = list(sys.argv[1:] if arguments is None else arguments), []
    while rest:
        word, equals, value = rest.pop(0).partition("=")
        if word in ("-h", "--help"):
            print(usage, end="")
            raise SystemExit(0)
        if options.get(word) is False and not equals:
            options[word] = True
        elif word in options and options[word] not in (False, True) and (equals or rest):
            options[word] = value if equals else rest.pop(0)
        else:
            names.append(word + equals + value)
    if len(names) != 1 or names[0].startswith("-"):
        misused(usage)
    return names[0]


def misused(usage):
    sys.stderr.write(usage)
    raise SystemExit(2)


def unquote(path):
    """Percent-decodes to bytes, as latin-1 (PEP 3333); what is no escape stays as it is."""
    if "%" not in path:
        return path
    first, *rest = path.split("%")
    pieces = [first]
    for piece in rest:
        digits = piece[:2]
        if len(digits) == 2 and all(digit in "0123456789abcdefABCDEF" for digit in digits):
            pieces.append(chr(int(digits, 16)) + piece[2:])
        else:
            pieces.append("%" + piece)
    return "".join(pieces)


def host_and_port(text):
    """Takes `name:port` or `[address]:port` apart; the port may be missing."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit():
        host, port = text, ""
    return host.strip("[]"), port
