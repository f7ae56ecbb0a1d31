# A stored answer. Varnish's arguments: README.md
vcl 4.1;
backend default { .host = "{{origin_host}}"; .port = "{{origin_port}}"; }
sub vcl_backend_response { set beresp.ttl = 10h; }
