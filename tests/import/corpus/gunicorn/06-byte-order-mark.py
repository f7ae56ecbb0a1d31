bind = "127.0.0.1:9000"
wsgi_app = "app:app"
