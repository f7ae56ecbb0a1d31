//! A program that changes while it runs.

use crate::harness::{Bed, UNIX, pipe_child, run, sh};
use pilotlight_supervisor::{EarlyRequests, Phase, ServiceState, Transport};
use std::time::Duration;

#[test]
fn no_request_after_the_change_is_answered_by_the_old_program() {
    run(async {
        let mut bed = Bed::new(2, vec![pipe_child("p", &[])]);
        let _seen = bed.work();
        let (service, control) = (bed.service(0), bed.supervisor.control());
        let before = service.ready(0).await.unwrap();
        control.outdate(service.id());
        while service.enter(0).is_some() {
            tokio::task::yield_now().await; // until the supervisor has heard it
        }
        let after = service.ready(1);
        tokio::pin!(after);
        // It waits, and nothing is started.
        assert!(tokio::time::timeout(Duration::from_millis(200), &mut after).await.is_err());
        assert_eq!(service.status().instance, 1);
        control.renew(service.id());
        let after = after.await.unwrap();
        assert_eq!((before.instance().number(), after.instance().number()), (1, 2));
        assert!(before.instance().ended_now().is_none_or(|ended| ended.start_error.is_none()));
        drop((before, after));
        assert!(bed.shutdown(Duration::from_secs(10)).await.0);
    });
}

#[test]
fn a_start_that_is_outdated_costs_no_request() {
    run(async {
        let mut late = sh("h", "sleep 100", UNIX);
        late.early_requests = EarlyRequests::Held;
        let bed = Bed::new(1, vec![late]);
        let (service, control) = (bed.service(0), bed.supervisor.control());
        let waits = service.ready(0);
        tokio::pin!(waits);
        for number in 1..=3 {
            while service.status().instance < number {
                assert!(tokio::time::timeout(Duration::from_millis(5), &mut waits).await.is_err());
            }
            control.outdate(service.id());
            control.renew(service.id());
        }
        assert_eq!((service.waiting(), service.status().failed_starts), (1, 0));
    });
}

#[test]
fn what_failed_is_started_again_and_what_never_ran_is_not() {
    run(async {
        let mut spec = sh("x", "exit 3", Transport::Pipe);
        spec.max_failures = 1;
        let bed = Bed::new(1, vec![spec, pipe_child("idle", &[])]);
        let (service, idle, control) = (bed.service(0), bed.service(1), bed.supervisor.control());
        assert_eq!(service.ready(0).await.unwrap_err().phase, Phase::Connect);
        assert_eq!(service.ready(0).await.unwrap_err().phase, Phase::Backoff);
        for service in [&service, &idle] {
            control.outdate(service.id());
            control.renew(service.id());
        }
        while service.status().failed_starts < 2 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!((idle.status().state, idle.status().instance), (ServiceState::Stopped, 0));
    });
}
