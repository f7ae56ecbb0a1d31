//! The model, without I/O: measured costs in, capacity out. What it takes for granted is in `docs/guide/capacity.md`.
//!
//! One gateway: a request costs what its kind costs, and memory is what an empty gateway has, and so much for each
//! connection, answer and service. A fleet: see [`Fleet`].

const US: f64 = 1e6;

/// What one piece of each kind takes of one gateway, as measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Costs {
    /// CPU time of an answer from memory.
    pub(super) hit_us: f64,
    /// Of a request that is passed on over HTTP.
    pub(super) http_us: f64,
    /// Over the pipe.
    pub(super) pipe_us: f64,
    /// Of a new connection: its full TLS handshake, and one answer from memory.
    pub(super) handshake_us: f64,
    /// Of a gateway that has answered and holds nothing.
    pub(super) empty_bytes: f64,
    /// Of a client that is connected and silent.
    pub(super) connection_bytes: f64,
    /// Of a stored answer of 200 bytes.
    pub(super) answer_bytes: f64,
    /// Of a configured service that is stopped, with its route.
    pub(super) service_bytes: f64,
}

/// How many of each kind come together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Mix {
    pub(super) hits: u32,
    pub(super) http: u32,
    pub(super) pipe: u32,
    pub(super) handshakes: u32,
}

impl Mix {
    pub(super) const fn requests(self) -> u32 {
        self.hits + self.http + self.pipe + self.handshakes
    }
}

/// What a gateway holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Content {
    pub(super) connections: u32,
    pub(super) answers: u32,
    pub(super) services: u32,
}

impl Costs {
    /// CPU time of a request of this mix, on average.
    pub(super) fn cpu_us(&self, mix: Mix) -> f64 {
        let kinds = [
            (mix.hits, self.hit_us),
            (mix.http, self.http_us),
            (mix.pipe, self.pipe_us),
            (mix.handshakes, self.handshake_us),
        ];
        kinds.iter().map(|(count, each)| f64::from(*count) * each).sum::<f64>() / f64::from(mix.requests())
    }

    /// Memory of gateway and helper.
    pub(super) fn bytes(&self, content: Content) -> f64 {
        self.empty_bytes
            + f64::from(content.connections) * self.connection_bytes
            + f64::from(content.answers) * self.answer_bytes
            + f64::from(content.services) * self.service_bytes
    }
}

/// Requests in a second that one core has time for.
pub(super) fn per_second(cpu_us: f64) -> f64 {
    US / cpu_us
}

/// How far a prediction is from what was measured, in percent of the latter.
pub(super) fn error_percent(predicted: f64, measured: f64) -> f64 {
    (predicted / measured - 1.0).abs() * 100.0
}

/// What grows with the number of gateways, along a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Line {
    pub(super) fixed: f64,
    pub(super) each: f64,
}

impl Line {
    /// Through two measurements, `(gateways, value)`. One that falls is noise: then the mean is taken.
    pub(super) fn through(one: [f64; 2], other: [f64; 2]) -> Self {
        let each = (other[1] - one[1]) / (other[0] - one[0]);
        if each < 0.0 {
            return Self { fixed: f64::midpoint(one[1], other[1]), each: 0.0 };
        }
        Self { fixed: one[1] - each * one[0], each }
    }

    pub(super) fn at(self, gateways: f64) -> f64 {
        self.fixed + self.each * gateways
    }
}

/// What gateways do to one Redis Cluster and hear from it, in CPU time, as measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Shared {
    /// Of an answer from Redis: a gateway's, and of all primaries together.
    pub(super) hit_us: [f64; 2],
    /// What a shared limit adds to a request: the same.
    pub(super) limit_us: [f64; 2],
    /// Of all primaries for a record that is stored: every gateway is told.
    pub(super) record: Line,
    /// CPU of the primary with the log of purges, for one purge: it tells every gateway, and each confirms.
    pub(super) purge: Line,
    /// Of the busiest primary in a second without requests: every gateway asks whether it is there.
    pub(super) second: Line,
    /// Of all gateways together, for each of the three.
    pub(super) record_heard: Line,
    pub(super) purge_heard: Line,
    pub(super) second_heard: Line,
    /// Connections that a primary has, from gateways of one worker.
    pub(super) connections: Line,
}

/// Machines that each have one gateway, on one Redis Cluster; what is taken for granted of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Fleet {
    /// Cores of a gateway, with a worker on each.
    pub(super) cores: f64,
    /// Primaries of the cluster, each with a core.
    pub(super) primaries: f64,
    /// Of the requests that Redis has no part in.
    pub(super) mix: Mix,
    /// Share of all requests that Redis answers.
    pub(super) from_redis: f64,
    /// Share that counts against a shared limit.
    pub(super) limited: f64,
    /// Of all machines together, in a second.
    pub(super) purges: f64,
    /// Records that are stored, likewise: as often as content changes, however many machines ask for it.
    pub(super) records: f64,
    /// Certificates that all share.
    pub(super) certificates: f64,
    /// Connections that a primary takes, `maxclients`.
    pub(super) max_connections: f64,
}

impl Fleet {
    pub(super) const TYPICAL: Self = Self {
        cores: 4.0,
        primaries: 5.0,
        mix: Mix { hits: 90, http: 4, pipe: 5, handshakes: 1 },
        from_redis: 0.05,
        limited: 0.1,
        purges: 10.0,
        records: 100.0,
        certificates: 1000.0,
        max_connections: 10_000.0,
    };
}

/// Commands of a gateway for a certificate that is renewed: it asks for the lease, some times while another has it, and
/// reads what that one has stored.
const RENEWAL_COMMANDS: f64 = 10.0;
const RENEWED_EVERY_S: f64 = 60.0 * 86_400.0;

/// What there can be too little of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resource {
    Gateway,
    Primary,
    Connections,
}

/// How much a fleet of some size can do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Capacity {
    /// Requests of a machine in a second that its own cores have time for.
    pub(super) by_gateway: f64,
    /// That the busiest primary has time for; nothing if other work fills it.
    pub(super) by_primary: f64,
    /// Share of the busiest primary that is taken without any request.
    pub(super) primary_at_rest: f64,
    /// Connections that a primary has.
    pub(super) connections: f64,
    /// Commands in a second for certificates, of all primaries.
    pub(super) certificate_commands: f64,
    /// Primaries with which the gateways bind first; nothing if no number is enough.
    pub(super) primaries_wanted: Option<f64>,
    /// What binds first.
    pub(super) first: Resource,
}

impl Fleet {
    /// With so many machines.
    pub(super) fn capacity(&self, machines: f64, costs: &Costs, shared: &Shared) -> Capacity {
        let [redis_gateway_us, redis_us] = shared.hit_us;
        let [limit_gateway_us, limit_us] = shared.limit_us;
        let request_us = (1.0 - self.from_redis) * costs.cpu_us(self.mix)
            + self.from_redis * redis_gateway_us
            + self.limited * limit_gateway_us;
        let heard_us =
            self.purges * shared.purge_heard.each + self.records * shared.record_heard.each + shared.second_heard.each;
        let by_gateway = ((self.cores * US - heard_us) / request_us).max(0.0);
        let certificate_commands = machines * self.certificates * RENEWAL_COMMANDS / RENEWED_EVERY_S;
        // Keys of records, limits and certificates are spread over all primaries; the log of purges is on one.
        let spread_us = self.records * shared.record.at(machines) + certificate_commands * redis_us;
        let alone_us = self.purges * shared.purge.at(machines) + shared.second.at(machines);
        let asked_us = machines * (self.from_redis * redis_us + self.limited * limit_us);
        let left_us = US - alone_us - spread_us / self.primaries;
        let by_primary = (left_us * self.primaries / asked_us).max(0.0);
        let own = shared.connections.at(machines).max(0.0);
        let connections = own + machines * (self.cores - 1.0);
        let first = if connections > self.max_connections {
            Resource::Connections
        } else if by_primary < by_gateway {
            Resource::Primary
        } else {
            Resource::Gateway
        };
        Capacity {
            by_gateway,
            by_primary,
            primary_at_rest: 1.0 - left_us / US,
            connections,
            certificate_commands,
            primaries_wanted: (alone_us < US).then(|| ((asked_us * by_gateway + spread_us) / (US - alone_us)).ceil()),
            first,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COSTS: Costs = Costs {
        hit_us: 4.0,
        http_us: 12.0,
        pipe_us: 8.0,
        handshake_us: 200.0,
        empty_bytes: 20e6,
        connection_bytes: 2000.0,
        answer_bytes: 1000.0,
        service_bytes: 5000.0,
    };
    const NOTHING: Line = Line { fixed: 0.0, each: 0.0 };

    /// Redis that costs nothing but for what a request takes of it.
    fn shared() -> Shared {
        Shared {
            hit_us: [10.0, 10.0],
            limit_us: [0.0, 0.0],
            record: NOTHING,
            purge: NOTHING,
            second: NOTHING,
            record_heard: NOTHING,
            purge_heard: NOTHING,
            second_heard: NOTHING,
            connections: Line { fixed: 0.0, each: 3.0 },
        }
    }

    fn fleet() -> Fleet {
        let mix = Mix { hits: 1, http: 0, pipe: 0, handshakes: 0 };
        Fleet { from_redis: 0.5, limited: 0.0, certificates: 0.0, mix, ..Fleet::TYPICAL }
    }

    #[track_caller]
    fn close(found: f64, wanted: f64) {
        assert!((found - wanted).abs() <= wanted.abs() * 1e-9, "{found}, not {wanted}");
    }

    #[test]
    fn a_request_costs_what_its_kinds_do_by_their_shares() {
        close(COSTS.cpu_us(Mix { hits: 7, http: 0, pipe: 0, handshakes: 0 }), 4.0);
        close(COSTS.cpu_us(Mix { hits: 90, http: 5, pipe: 4, handshakes: 1 }), (360.0 + 60.0 + 32.0 + 200.0) / 100.0);
        close(per_second(4.0), 250_000.0);
    }

    #[test]
    fn memory_is_what_an_empty_gateway_has_and_what_it_holds() {
        close(COSTS.bytes(Content { connections: 0, answers: 0, services: 0 }), 20e6);
        close(COSTS.bytes(Content { connections: 1000, answers: 500, services: 10 }), 22.55e6);
    }

    #[test]
    fn an_error_is_of_what_was_measured_on_either_side() {
        close(error_percent(115.0, 100.0), 15.0);
        close(error_percent(85.0, 100.0), 15.0);
    }

    #[test]
    fn a_line_goes_through_both_unless_it_falls() {
        let line = Line::through([1.0, 12.0], [8.0, 26.0]);
        assert_eq!(line, Line { fixed: 10.0, each: 2.0 });
        close(line.at(1000.0), 2010.0);
        assert_eq!(Line::through([1.0, 12.0], [8.0, 10.0]), Line { fixed: 11.0, each: 0.0 });
    }

    #[test]
    fn gateways_bind_first_until_the_primaries_do() {
        // A request takes 7 µs of a gateway with four cores, and of five primaries 5 µs.
        let few = fleet().capacity(1.0, &COSTS, &shared());
        close(few.by_gateway, 4e6 / 7.0);
        close(few.by_primary, 1e6);
        assert_eq!(few.first, Resource::Gateway);
        let many = fleet().capacity(10.0, &COSTS, &shared());
        close(many.by_primary, 1e5);
        assert_eq!((many.first, many.primaries_wanted), (Resource::Primary, Some(29.0)));
        close(many.connections, 60.0);
        assert_eq!(fleet().capacity(2000.0, &COSTS, &shared()).first, Resource::Connections);
    }

    #[test]
    fn what_every_gateway_is_told_may_fill_the_primary_with_the_log() {
        let shared = Shared { purge: Line { fixed: 0.0, each: 100.0 }, ..shared() };
        let found = fleet().capacity(500.0, &COSTS, &shared);
        close(found.primary_at_rest, 0.5);
        let full = fleet().capacity(1000.0, &COSTS, &shared);
        assert_eq!((full.by_primary, full.primaries_wanted, full.first), (0.0, None, Resource::Primary));
    }

    #[test]
    fn certificates_cost_next_to_nothing_however_many_machines_there_are() {
        let found = Fleet { certificates: 1000.0, ..fleet() }.capacity(1000.0, &COSTS, &shared());
        close(found.certificate_commands, 1e7 / 5_184_000.0);
        assert!(found.primary_at_rest < 1e-5, "{}", found.primary_at_rest);
    }

    #[test]
    fn what_a_gateway_hears_is_taken_from_its_cores() {
        let shared = Shared { purge_heard: Line { fixed: 7.0, each: 200_000.0 }, ..shared() };
        close(fleet().capacity(1.0, &COSTS, &shared).by_gateway, 2e6 / 7.0);
    }
}
