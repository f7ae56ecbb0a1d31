//! Other settings while services run.

use crate::harness::{Bed, gone_within, pipe_child, run, sh};
use crate::scale::{MS, caller, ready, until};
use pilotlight_supervisor::{InstanceState, QueueLimits, Service, ServiceSpec, ServiceState, Spare};
use std::sync::Arc;
use std::time::Duration;

fn configure(bed: &Bed, service: &Service, spec: &ServiceSpec) {
    let services = bed.supervisor.control().configure(vec![(Some(service.id()), spec.clone())]).unwrap();
    assert_eq!(services.len(), 1);
    assert_eq!(services[0].name(), service.name());
}

#[test]
fn the_same_settings_and_those_that_are_followed_leave_the_instance() {
    run(async {
        let spec = pipe_child("p", &[]);
        let mut bed = Bed::new(1, vec![spec.clone()]);
        let _seen = bed.work();
        let service = bed.service(0);
        drop(service.ready(0).await.unwrap());
        configure(&bed, &service, &spec);
        let queue = QueueLimits { max: 7, timeout: 3 * MS };
        let spec = ServiceSpec { queue, max_request_time: Some(5 * MS), drain_timeout: 9 * MS, ..spec };
        configure(&bed, &service, &spec);
        assert_eq!(service.max_request_time(), Some(5 * MS));
        assert_eq!(service.enter(0).unwrap().instance().number(), 1);
        let status = service.status();
        assert_eq!((status.starts, status.instances.len(), &*status.spec), (1, 1, &spec));
        // Idle at once: what was set for 15 minutes is looked at again.
        configure(&bed, &service, &ServiceSpec { idle_timeout: Some(MS), ..spec });
        until(|| service.status().instances.is_empty()).await;
    });
}

#[test]
fn a_change_that_a_process_sees_replaces_it_without_a_gap() {
    run(async {
        let mut spec = pipe_child("p", &[]);
        let mut bed = Bed::new(1, vec![spec.clone()]);
        let _seen = bed.work();
        let service = bed.service(0);
        let open = service.ready(0).await.unwrap();
        spec.env.push(("CHANGED".to_owned(), "1".to_owned()));
        configure(&bed, &service, &spec);
        while service.enter(0).is_some_and(|lease| lease.instance().number() == 1) {
            tokio::task::yield_now().await;
        }
        assert_eq!(service.enter(0).expect("there is always one").instance().number(), 2);
        assert!(open.instance().ended_now().is_none(), "an open exchange was cut: {:?}", open.instance().ended_now());
        let old = Arc::clone(open.instance());
        drop(open);
        old.ended().await;
    });
}

#[test]
fn a_change_that_does_not_start_leaves_what_runs_until_it_is_mended() {
    run(async {
        let spec = pipe_child("p", &[]);
        let mut bed = Bed::new(1, vec![spec.clone()]);
        let _seen = bed.work();
        let service = bed.service(0);
        drop(service.ready(0).await.unwrap());
        configure(&bed, &service, &ServiceSpec { argv: vec!["/bin/false".into()], ..spec.clone() });
        until(|| service.status().failed_starts > 0).await;
        assert_eq!(service.enter(0).unwrap().instance().number(), 1);
        configure(&bed, &service, &spec);
        until(|| service.status().instances.iter().any(|one| one.number > 1 && one.state == InstanceState::Ready))
            .await;
        assert_eq!(service.status().last_error.map(|error| error.reason.to_string()), None);
    });
}

#[test]
fn who_waits_for_a_start_with_old_settings_gets_one_with_new_ones() {
    run(async {
        let hangs = sh("p", "exec sleep 1000", pilotlight_supervisor::Transport::Pipe);
        let mut bed = Bed::new(1, vec![hangs]);
        let _seen = bed.work();
        let service = bed.service(0);
        let waiting = caller(&service, 0);
        until(|| service.status().instances.first().is_some_and(|one| one.pid.is_some())).await;
        let pid = service.status().pid.unwrap();
        configure(&bed, &service, &pipe_child("p", &[]));
        assert_eq!(waiting.await.unwrap().unwrap().instance().number(), 2);
        assert!(gone_within(pid, Duration::from_secs(5)), "the given up start is still there");
    });
}

#[test]
fn limits_of_each_instance_come_and_go() {
    run(async {
        let spec = ServiceSpec { scale_down_after: 100 * MS, ..pipe_child("p", &[]) };
        let mut bed = Bed::new(1, vec![spec.clone()]);
        let _seen = bed.work();
        let service = bed.service(0);
        let old = service.ready(0).await.unwrap();
        let limited = ServiceSpec { concurrency: Some(1), max_instances: 2, spare: Spare::One, ..spec.clone() };
        configure(&bed, &service, &limited);
        until(|| ready(&service) == 1 && service.status().starts == 2).await; // the successor
        let first = service.enter(0).unwrap();
        until(|| ready(&service) == 2).await; // the spare
        let second = service.enter(0).unwrap();
        assert!(service.enter(0).is_none(), "there are two places");
        drop((old, first, second));
        configure(&bed, &service, &spec);
        let many = || (0..3).map_while(|_| service.enter(0)).count() == 3;
        until(many).await;
        until(|| ready(&service) == 1).await;
        assert!(many());
    });
}

#[test]
fn a_service_is_added_and_another_goes_when_its_exchanges_are_done() {
    run(async {
        let mut bed = Bed::new(1, vec![pipe_child("old", &[])]);
        let _seen = bed.work();
        let old = bed.service(0);
        let open = old.ready(0).await.unwrap();
        let control = bed.supervisor.control();
        let added = ServiceSpec { min_instances: pilotlight_supervisor::MinInstances::One, ..pipe_child("new", &[]) };
        let services = control.configure(vec![(Some(old.id()), pipe_child("old", &[])), (None, added)]).unwrap();
        until(|| services[1].status().state == ServiceState::Ready).await;
        control.retire(vec![old.id()]);
        until(|| old.status().state == ServiceState::Stopped).await;
        assert!(open.instance().ended_now().is_none(), "an open exchange was cut: {:?}", open.instance().ended_now());
        // A request that was on its way is answered, and what is started for it goes soon.
        let late = old.ready(0).await.unwrap();
        assert_eq!(late.instance().number(), 2);
        drop((open, late));
        until(|| old.status().instances.is_empty()).await;
        // A name, and the place of who has gone for good, may be used again.
        let id = old.id();
        drop(old);
        let again = control.configure(vec![(None, pipe_child("old", &[]))]).unwrap();
        assert_ne!(again[0].id(), id, "the bed still holds the first");
        assert_eq!(again[0].ready(0).await.unwrap().instance().number(), 1);
    });
}

#[test]
fn settings_that_make_no_sense_change_nothing() {
    run(async {
        let spec = pipe_child("p", &[]);
        let bed = Bed::new(1, vec![spec.clone()]);
        let wrong = vec![(Some(bed.service(0).id()), ServiceSpec { argv: Vec::new(), ..spec.clone() })];
        bed.supervisor.control().configure(wrong).unwrap_err();
        let twice = vec![(None, spec.clone()), (None, spec.clone())];
        bed.supervisor.control().configure(twice).unwrap_err();
        assert_eq!(*bed.service(0).status().spec, spec);
    });
}
