//! HTTP gateway: listeners, routes, upstreams and the use of the cache.
