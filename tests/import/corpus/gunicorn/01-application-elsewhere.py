# has: max_instances = 4
# has: concurrency = 8
# has: max_request_time = "60s"
# has: dir = "/srv/shop"
# has: env = { "DJANGO_SETTINGS_MODULE" = "shop.settings" }
# has: "0.0.0.0:8000", "[::]:8000"
# named: the application
# open: 8000 any.example /
"""Settings of gunicorn."""
import os

bind = "0.0.0.0:8000"
bind = "[::]:8000"
workers = 4
threads = 8
timeout = 60
chdir = "/srv/shop"
raw_env = ["DJANGO_SETTINGS_MODULE=shop.settings"]
