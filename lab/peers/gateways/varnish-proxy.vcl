# Requests passed on; connections to a backend are kept unless it closes them. Varnish's arguments: README.md
vcl 4.1;
backend default { .path = "{{socket}}"; }
sub vcl_recv { return (pass); }
