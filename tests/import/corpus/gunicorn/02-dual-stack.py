# has: "[::]:8000", "0.0.0.0:8000"
# open: 8000 any.example /
bind = "[::]:8000"
wsgi_app = "shop.wsgi:application"
