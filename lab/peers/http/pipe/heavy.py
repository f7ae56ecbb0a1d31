"""A module that takes 300 ms of processor time to import."""
import time

until = time.process_time() + 0.3
while time.process_time() < until:
    sum(range(1000))
DONE = True
