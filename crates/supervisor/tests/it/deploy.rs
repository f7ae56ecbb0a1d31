//! Releases that are tried beside what serves.

use crate::harness::{Bed, UNIX, pipe_child, run, sh};
use crate::scale::{MS, until};
use pilotlight_supervisor::{Blame, DeployError, Deployed, Deploys, HealthCheck, Service, ServiceSpec, Trial};
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::oneshot;

type Answer = oneshot::Receiver<Result<Deployed, DeployError>>;

/// A folder with the releases `a`, the current one, and `b`.
fn releases() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for release in ["a", "b"] {
        std::fs::create_dir_all(folder.path().join("releases").join(release)).unwrap();
    }
    symlink("releases/a", folder.path().join("current")).unwrap();
    folder
}

fn with_releases(spec: ServiceSpec, folder: &Path, target: &str) -> ServiceSpec {
    let health = HealthCheck { target: target.to_owned(), ..HealthCheck::default() };
    let (dir, releases) = (Some(folder.join("current")), Some(folder.to_owned()));
    ServiceSpec { dir, releases, health, idle_timeout: None, stop_grace: 100 * MS, ..spec }
}

fn try_b(bed: &Bed, folder: &Path, switch: impl FnOnce() -> io::Result<()> + Send + 'static) -> Answer {
    let trial = Trial { release: "b".into(), dir: folder.join("releases/b"), switch: Box::new(switch) };
    bed.supervisor.control().deploy(bed.service(0).id(), trial)
}

/// As `pilotlight deploy` has it done.
fn switched(folder: &Path) -> impl FnOnce() -> io::Result<()> + Send + 'static {
    let folder = folder.to_owned();
    move || {
        symlink("releases/b", folder.join("next"))?;
        std::fs::rename(folder.join("next"), folder.join("current"))
    }
}

/// The releases of those that are there, and where they run.
fn running(service: &Service) -> Vec<(String, String)> {
    let status = service.status();
    let dir = |pid: i32| std::fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let one = |pid: Option<i32>| pid.map(|pid| name(&dir(pid))).unwrap_or_default();
    status.instances.iter().map(|it| (it.release.as_deref().unwrap_or_default().to_owned(), one(it.pid))).collect()
}

fn is_a_alone(service: &Service) -> bool {
    running(service) == [("a".to_owned(), "a".to_owned())]
}

#[test]
fn a_healthy_release_takes_the_place_of_the_one_before() {
    run(async {
        let folder = releases();
        let mut bed = Bed::new(2, vec![with_releases(pipe_child("p", &[]), folder.path(), "/")]);
        let _seen = bed.work();
        let service = bed.service(0);
        let open = service.ready(0).await.unwrap();
        assert!(is_a_alone(&service));
        let (at_switch, before) = (Arc::clone(&service), folder.path().to_owned());
        let switch = switched(folder.path());
        let answer = try_b(&bed, folder.path(), move || {
            // Healthy, and not used before it is the current one.
            assert_eq!(std::fs::read_link(before.join("current")).unwrap(), Path::new("releases/a"));
            assert_eq!(at_switch.enter(0).unwrap().instance().number(), 1);
            switch()
        });
        let deployed = answer.await.unwrap().unwrap();
        assert_eq!((deployed.instance, deployed.status), (2, 200));
        assert_eq!(service.enter(0).unwrap().instance().number(), 2);
        assert!(open.instance().ended_now().is_none(), "an open exchange was cut");
        drop(open);
        until(|| running(&service) == [("b".to_owned(), "b".to_owned())]).await;
        assert_eq!(service.status().replaced.asked, 1);
    });
}

#[test]
fn a_release_that_is_not_healthy_gets_no_request() {
    run(async {
        let folder = releases();
        let mut bed = Bed::new(1, vec![with_releases(pipe_child("p", &[]), folder.path(), "/sick")]);
        let _seen = bed.work();
        let service = bed.service(0);
        drop(service.ready(0).await.unwrap());
        for _ in 0..4 {
            let answer = try_b(&bed, folder.path(), || panic!("it is not healthy")).await.unwrap();
            let error = answer.unwrap_err();
            assert_eq!((&*error.reason, error.blame), ("it answered with status 500", Blame::Release));
            assert_eq!(service.enter(0).unwrap().instance().number(), 1);
            until(|| is_a_alone(&service)).await;
        }
        let status = service.status();
        assert_eq!((status.failures, status.failed_starts, status.last_error.is_none()), (0, 0, true));
        assert_eq!(status.deploys, Deploys { used: 0, refused: 4, abandoned: 0 });
    });
}

#[test]
fn a_release_that_ends_at_its_start_is_not_used_and_its_last_words_are_told() {
    run(async {
        let folder = releases();
        let script = "case $PWD in */a) exec sleep 60;; esac; echo no such module >&2; exit 3";
        let spec = with_releases(sh("s", script, UNIX), folder.path(), "/");
        let mut bed = Bed::new(1, vec![spec]);
        let _seen = bed.work();
        let service = bed.service(0);
        bed.supervisor.start(service.id());
        until(|| service.enter(0).is_some()).await;
        let error = try_b(&bed, folder.path(), || panic!("it did not start")).await.unwrap().unwrap_err();
        assert!(error.reason.contains("before it was ready"), "{}", error.reason);
        assert_eq!((&error.output_tail[..], error.blame), (&["no such module".to_owned()][..], Blame::Release));
        assert_eq!(service.enter(0).unwrap().instance().number(), 1);
        until(|| is_a_alone(&service)).await;
        assert_eq!(service.status().failures, 0, "what serves has not failed");
    });
}

#[test]
fn a_disk_on_which_the_release_cannot_be_made_current_leaves_the_one_before() {
    run(async {
        let folder = releases();
        let mut bed = Bed::new(1, vec![with_releases(pipe_child("p", &[]), folder.path(), "/")]);
        let _seen = bed.work();
        let service = bed.service(0);
        drop(service.ready(0).await.unwrap());
        let full = || Err(io::Error::other("no space left"));
        let error = try_b(&bed, folder.path(), full).await.unwrap().unwrap_err();
        assert!(error.reason.contains("no space left"), "{}", error.reason);
        assert_eq!(error.blame, Blame::Circumstances);
        assert_eq!(service.enter(0).unwrap().instance().number(), 1);
        until(|| is_a_alone(&service)).await;
        try_b(&bed, folder.path(), switched(folder.path())).await.unwrap().unwrap();
        assert_eq!(service.status().deploys, Deploys { used: 1, refused: 0, abandoned: 1 });
    });
}

#[test]
fn one_release_is_tried_at_a_time_and_a_stop_ends_that() {
    run(async {
        let folder = releases();
        let mut bed = Bed::new(1, vec![with_releases(pipe_child("p", &[]), folder.path(), "/silent")]);
        let _seen = bed.work();
        let service = bed.service(0);
        drop(service.ready(0).await.unwrap());
        let first = try_b(&bed, folder.path(), || panic!("it was not healthy"));
        let second = try_b(&bed, folder.path(), || panic!("it was not tried")).await.unwrap().unwrap_err();
        assert!(second.reason.contains("another release"), "{}", second.reason);
        bed.supervisor.stop(service.id());
        let first = first.await.unwrap().unwrap_err();
        assert_eq!(first.blame, Blame::Circumstances, "{}", first.reason);
        until(|| service.status().instances.is_empty()).await;
    });
}

#[test]
fn the_first_release_starts_a_service_that_had_none() {
    run(async {
        let folder = releases();
        std::fs::remove_file(folder.path().join("current")).unwrap();
        let mut bed = Bed::new(1, vec![with_releases(pipe_child("p", &[]), folder.path(), "/")]);
        let _seen = bed.work();
        let service = bed.service(0);
        let error = service.ready(0).await.unwrap_err();
        assert!(error.reason.contains("pilotlight deploy FOLDER --service p"), "{}", error.reason);
        try_b(&bed, folder.path(), switched(folder.path())).await.unwrap().unwrap();
        assert_eq!(service.ready(0).await.unwrap().instance().number(), 1);
    });
}
