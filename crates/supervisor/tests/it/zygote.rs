//! Instances that are forked from a zygote of the Python SDK.

use crate::harness::{Bed, gone_within, parent_of, pipe_child, run};
use pilotlight_supervisor::{
    Exit, Preload, PreloadAt, Service, ServiceSpec, ServiceState, Spare, Transport, ZygoteState, ZygoteStatus,
};
use rustix::process::{Pid, Signal, kill_process};
use std::sync::Arc;
use std::time::Duration;

/// The service of `child.py` with a zygote; `modules` are put beside it in a folder of the test.
fn forked(name: &str, options: &[&str], modules: &[&str]) -> ServiceSpec {
    let mut spec = pipe_child(name, options);
    spec.argv.remove(1); // -I would ignore PYTHONPATH
    let sdk = concat!(env!("CARGO_MANIFEST_DIR"), "/../../sdk/python");
    spec.env.push(("PYTHONPATH".to_owned(), sdk.to_owned()));
    spec.env.push(("PYTHONDONTWRITEBYTECODE".to_owned(), "1".to_owned()));
    spec.preload =
        Some(Preload { modules: modules.iter().map(|&name| name.to_owned()).collect(), at: PreloadAt::Boot });
    spec
}

fn zygote(service: &Service) -> ZygoteStatus {
    service.status().zygote.unwrap()
}

async fn until(check: impl Fn() -> bool) {
    while !check() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// The first instance's process: known a little after the instance is ready, if that was quick.
async fn pid_of(service: &Service) -> i32 {
    until(|| service.status().pid.is_some()).await;
    service.status().pid.unwrap()
}

async fn ready_zygote(service: &Service) -> i32 {
    until(|| zygote(service).state == ZygoteState::Ready).await;
    zygote(service).pid.unwrap()
}

fn kill(pid: i32) {
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
}

/// Whether the process was executed (or forked by one that was) as a zygote.
fn is_fork(pid: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap().contains("pilotlight.zygote")
}

#[test]
fn instances_are_forks_and_children_of_the_guardian() {
    run(async {
        let mut bed = Bed::new(1, vec![forked("z", &[], &["json", "decimal"])]);
        let _seen = bed.work();
        let service = bed.service(0);
        let parent = ready_zygote(&service).await;
        assert_eq!(service.status().state, ServiceState::Stopped);
        let mut last = 0;
        for number in 1..=3 {
            let lease = service.ready(0).await.unwrap();
            assert_eq!(lease.instance().number(), number);
            let pid = pid_of(&service).await;
            assert!(is_fork(pid) && pid != last && pid != parent);
            assert_eq!(parent_of(pid), parent_of(parent), "the guardian buries it");
            last = pid;
            let instance = Arc::clone(lease.instance());
            drop(lease);
            kill(pid);
            assert_eq!(instance.ended().await.exit, Some(Exit::Signal(9)));
        }
        assert_eq!(ready_zygote(&service).await, parent);
        bed.supervisor.stop(service.id());
        until(|| zygote(&service).state == ZygoteState::Stopped).await;
        assert!(gone_within(parent, Duration::from_secs(5)), "stopped with the service");
        drop(service.ready(0).await.unwrap());
        assert_ne!(ready_zygote(&service).await, parent);
    });
}

#[test]
fn output_and_exit_status_are_the_instance_s_own() {
    run(async {
        let mut bed = Bed::new(1, vec![forked("z", &[], &["json"])]);
        let _seen = bed.work();
        let service = bed.service(0);
        let lease = service.ready(0).await.unwrap();
        let instance = Arc::clone(lease.instance());
        assert_eq!(bed.line(|line| line.text == "welcome").await.instance, 1);
        drop(lease);
        bed.supervisor.stop(service.id());
        assert_eq!(bed.line(|line| line.text == "drained").await.instance, 1);
        assert_eq!(instance.ended().await.exit, Some(Exit::Code(0)));
    });
}

#[test]
fn the_first_start_waits_for_a_zygote_that_is_not_there_yet() {
    run(async {
        let mut spec = forked("z", &[], &["json"]);
        spec.preload.as_mut().unwrap().at = PreloadAt::First;
        let mut bed = Bed::new(1, vec![spec]);
        let _seen = bed.work();
        let service = bed.service(0);
        assert!(service.status().zygote.is_none_or(|zygote| zygote.state == ZygoteState::Stopped));
        drop(service.ready(0).await.unwrap());
        assert_eq!(zygote(&service).state, ZygoteState::Ready);
        assert!(is_fork(pid_of(&service).await));
    });
}

#[test]
fn what_cannot_be_preloaded_is_started_in_the_ordinary_way_and_says_why() {
    run(async {
        let mut bed = Bed::new(1, vec![forked("z", &[], &["json", "no_such_module"])]);
        let _seen = bed.work();
        let service = bed.service(0);
        drop(service.ready(0).await.unwrap());
        assert!(!is_fork(pid_of(&service).await));
        let zygote = zygote(&service);
        assert_eq!(zygote.state, ZygoteState::GivenUp);
        assert!(zygote.reason.unwrap().contains("cannot import `no_such_module`: ModuleNotFoundError"));
        let line = bed.line(|line| line.text.contains("No module named")).await;
        assert_eq!(line.instance, 0);
    });
}

#[test]
fn a_command_that_is_no_python_is_given_up_after_three_tries() {
    run(async {
        let mut spec = forked("z", &[], &["json"]);
        spec.argv.insert(0, "env".into()); // `env -m …` fails
        let mut bed = Bed::new(1, vec![spec]);
        let _seen = bed.work();
        let service = bed.service(0);
        for _ in 0..3 {
            drop(service.ready(0).await.unwrap());
            let pid = pid_of(&service).await;
            assert!(!is_fork(pid));
            kill(pid);
            until(|| service.status().state == ServiceState::Stopped).await;
        }
        until(|| zygote(&service).state == ZygoteState::GivenUp).await;
        assert!(zygote(&service).reason.unwrap().contains("does the command run Python"));
    });
}

#[test]
fn instances_outlive_a_killed_zygote_and_the_next_start_has_a_new_one() {
    run(async {
        let mut bed = Bed::new(1, vec![forked("z", &[], &["json"])]);
        let _seen = bed.work();
        let service = bed.service(0);
        let lease = service.ready(0).await.unwrap();
        let parent = ready_zygote(&service).await;
        kill(parent);
        until(|| zygote(&service).state == ZygoteState::Stopped).await;
        assert!(lease.instance().ended_now().is_none());
        let pid = pid_of(&service).await;
        drop(lease);
        kill(pid);
        until(|| service.status().state == ServiceState::Stopped).await;
        drop(service.ready(0).await.unwrap());
        assert!(is_fork(pid_of(&service).await));
        assert_ne!(ready_zygote(&service).await, parent);
    });
}

#[test]
fn a_restart_imports_anew_and_overlaps() {
    run(async {
        let mut bed = Bed::new(1, vec![forked("z", &[], &["json"])]);
        let _seen = bed.work();
        let service = bed.service(0);
        drop(service.ready(0).await.unwrap());
        let (parent, pid) = (ready_zygote(&service).await, pid_of(&service).await);
        bed.supervisor.restart(service.id());
        until(|| {
            assert!(service.enter(0).is_some(), "it answers all the time");
            service.status().pid.is_some_and(|now| now != pid)
        })
        .await;
        assert!(gone_within(parent, Duration::from_secs(5)) && gone_within(pid, Duration::from_secs(5)));
        assert!(is_fork(pid_of(&service).await));
        assert_ne!(ready_zygote(&service).await, parent);
    });
}

#[test]
fn several_at_once_and_a_spare() {
    run(async {
        let mut spec = forked("z", &[], &["json"]);
        (spec.max_instances, spec.concurrency, spec.spare) = (4, Some(1), Spare::One);
        spec.scale_up_after = Duration::from_millis(1);
        let mut bed = Bed::new(2, vec![spec]);
        let _seen = bed.work();
        let service = bed.service(0);
        let mut leases = Vec::new();
        for worker in 0..3 {
            leases.push(service.ready(worker % 2).await.unwrap());
        }
        until(|| service.status().instances.iter().filter(|one| one.pid.is_some()).count() == 4).await;
        assert!(service.status().instances.iter().all(|one| is_fork(one.pid.unwrap())));
    });
}

#[test]
fn nothing_is_left_of_a_zygote_when_the_gateway_stops_or_its_guardian_is_killed() {
    run(async {
        let mut bed = Bed::new(1, vec![forked("z", &[], &["json"])]);
        let _seen = bed.work();
        let service = bed.service(0);
        drop(service.ready(0).await.unwrap());
        let (parent, pid) = (ready_zygote(&service).await, pid_of(&service).await);
        kill(parent_of(parent));
        for gone in [parent, pid] {
            assert!(gone_within(gone, Duration::from_secs(5)), "{gone} outlives its guardian");
        }
        // Whoever asks before the supervisor has seen it is given what is no longer there.
        until(|| service.status().instances.is_empty() && zygote(&service).state != ZygoteState::Ready).await;
        drop(service.ready(0).await.unwrap());
        let (parent, pid) = (ready_zygote(&service).await, pid_of(&service).await);
        assert!(is_fork(pid));
        let (in_time, _) = bed.shutdown(Duration::from_secs(10)).await;
        assert!(in_time);
        for gone in [parent, pid] {
            assert!(gone_within(gone, Duration::ZERO), "{gone} outlives its gateway");
        }
    });
}

#[test]
fn a_start_that_is_stopped_while_its_zygote_imports_ends() {
    run(async {
        let mut spec = forked("z", &[], &["slow"]);
        spec.preload.as_mut().unwrap().at = PreloadAt::First;
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("slow.py"), "import time\nprint('importing', flush=True)\ntime.sleep(60)\n")
            .unwrap();
        spec.env[0].1 += &format!(":{}", folder.path().display());
        let mut bed = Bed::new(1, vec![spec]);
        let _seen = bed.work();
        let service = bed.service(0);
        let waiting = {
            let service = Arc::clone(&service);
            tokio::spawn(async move { service.ready(0).await.err() })
        };
        bed.line(|line| line.text == "importing").await;
        let parent = zygote(&service).pid.unwrap();
        bed.supervisor.stop(service.id());
        assert!(waiting.await.unwrap().is_some());
        assert!(gone_within(parent, Duration::from_secs(5)));
        until(|| service.status().instances.is_empty()).await;
    });
}

#[test]
fn imports_that_take_longer_than_start_timeout_are_given_up() {
    run(async {
        let mut spec = forked("z", &[], &["slow"]);
        spec.start_timeout = Duration::from_millis(300);
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("slow.py"), "import time\ntime.sleep(60)\n").unwrap();
        spec.env[0].1 += &format!(":{}", folder.path().display());
        let mut bed = Bed::new(1, vec![spec]);
        let _seen = bed.work();
        let service = bed.service(0);
        until(|| zygote(&service).state == ZygoteState::GivenUp).await;
        assert!(zygote(&service).reason.unwrap().contains("still importing"));
        assert!(service.status().instances.is_empty());
    });
}

#[test]
fn http_services_have_none() {
    let mut spec = forked("z", &[], &["json"]);
    spec.transport = Transport::Http(pilotlight_supervisor::HttpSocket::Unix);
    let dir = tempfile::tempdir().unwrap();
    let (log, _lines) = tokio::sync::mpsc::channel(16);
    let options = pilotlight_supervisor::SupervisorOptions {
        workers: 1,
        runtime_dir: dir.path().join("run"),
        guardian: crate::harness::guardian(),
        log,
        containers: pilotlight_supervisor::ContainerOptions::default(),
    };
    assert!(pilotlight_supervisor::start(options, vec![spec]).unwrap_err().to_string().contains("`preload`"));
}

#[test]
fn a_reload_that_changes_what_is_imported_has_a_new_zygote() {
    run(async {
        let spec = forked("z", &[], &["json"]);
        let mut bed = Bed::new(1, vec![spec.clone()]);
        let _seen = bed.work();
        let service = bed.service(0);
        drop(service.ready(0).await.unwrap());
        let (parent, pid) = (ready_zygote(&service).await, pid_of(&service).await);
        let configure = |spec: &ServiceSpec| {
            bed.supervisor.control().configure(vec![(Some(service.id()), spec.clone())]).unwrap();
        };
        configure(&ServiceSpec { idle_timeout: None, freeze_after: Some(Duration::from_secs(60)), ..spec.clone() });
        assert_eq!((ready_zygote(&service).await, pid_of(&service).await), (parent, pid), "neither needs a new one");
        configure(&forked("z", &[], &["json", "decimal"]));
        until(|| service.status().pid.is_some_and(|now| now != pid)).await;
        assert!(gone_within(parent, Duration::from_secs(5)));
        let second = ready_zygote(&service).await;
        let first = pid_of(&service).await;
        configure(&ServiceSpec { preload: None, ..spec });
        until(|| service.status().pid.is_some_and(|now| now != first)).await;
        assert!(gone_within(second, Duration::from_secs(5)));
        assert_eq!(service.status().zygote, None);
        assert!(!is_fork(pid_of(&service).await));
    });
}

/// The end may be seen before the guardian hears of the fork.
#[test]
fn an_instance_that_ends_at_once_is_reported_with_its_status() {
    run(async {
        let mut spec = forked("z", &[], &["json"]);
        spec.argv =
            ["/usr/bin/python3", "-c", "import os; print('short', flush=True); os._exit(7)"].map(Into::into).into();
        let mut bed = Bed::new(1, vec![spec]);
        let _seen = bed.work();
        let service = bed.service(0);
        ready_zygote(&service).await;
        for _ in 0..10 {
            bed.supervisor.start(service.id()); // closes the circuit
            let error = service.ready(0).await.expect_err("it never dials");
            if error.exit.is_some() {
                assert_eq!(error.exit, Some(Exit::Code(7)));
                assert_eq!(*error.output_tail, ["short".to_owned()]);
            }
            until(|| service.status().instances.is_empty()).await;
        }
        assert_eq!(service.status().last_error.and_then(|error| error.exit), Some(Exit::Code(7)));
    });
}

/// The guardian makes nothing a run, and so kills nothing, but what is its own child.
#[test]
fn a_zygote_that_names_a_process_of_others_is_not_believed() {
    const LIAR: &str = r#"#!/usr/bin/python3 -IS
import json, os, socket, struct
control = socket.socket(fileno=os.dup(0))
def say(message):
    data = json.dumps(message).encode()
    control.sendall(struct.pack("=I", len(data)) + data)
say("Ready")
for run in range(2, 100):
    if not control.recv(65536):
        break
    say({"Forked": {"run": run, "pid": int(os.environ["PID"])}})
"#;
    run(async {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("python3");
        std::fs::write(&path, LIAR).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o700)).unwrap();
        for pid in [1, -1, 0, std::process::id() as i32] {
            let mut spec = forked("z", &[], &["json"]);
            spec.argv = vec![path.clone().into()];
            spec.env = vec![("PID".to_owned(), pid.to_string())];
            let mut bed = Bed::new(1, vec![spec]);
            let _seen = bed.work();
            let service = bed.service(0);
            ready_zygote(&service).await;
            let error = service.ready(0).await.expect_err("nothing was forked");
            assert!(error.reason.contains("which is none that it has forked"), "{pid}: {error}");
        }
    });
}
