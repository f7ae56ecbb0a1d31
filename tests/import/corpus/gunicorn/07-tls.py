# has: "https://0.0.0.0:8443"
# has: "mode" = "required"
# open: 8443 any.example /
bind = "0.0.0.0:8443"
wsgi_app = "app:app"
certfile = "/etc/ssl/app.pem"
keyfile = "/etc/ssl/app.key"
ca_certs = "/etc/ssl/ca.pem"
cert_reqs = 2
