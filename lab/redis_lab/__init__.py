"""Clients of a Redis cluster, compared: the cluster, the clients, one measurement, the figures that are wanted."""
