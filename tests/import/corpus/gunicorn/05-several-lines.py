# has: listen = ["127.0.0.1:8000", "unix:/run/shop.sock"]
# has: env = { "A" = "1", "B" = "2#3" }
bind = ["127.0.0.1:8000",
        "unix:/run/shop.sock"]
raw_env = [
    "A=1",  # one
    "B=2#3",
]
wsgi_app = "shop:app"
worker_class = "gevent"
accesslog = "-"
