use super::*;

const SECOND: Duration = Duration::from_secs(1);
const GIB: u64 = 1 << 30;

/// A group of services that take as many GiB as their number says, at a time of which `start` is the beginning.
struct Scene {
    start: Instant,
    group: Group,
}

impl Scene {
    fn new(max_running: Option<u32>, gib: Option<u64>) -> Self {
        let budget = Budget { max_running, memory: gib.map(|gib| gib * GIB), grace: 10 * SECOND };
        let group = Group { budget, members: Vec::new(), wants: Vec::new(), over_since: None };
        Self { start: Instant::now(), group }
    }

    fn member(mut self, service: usize, standing: Standing) -> Self {
        let id = self.group.members.len() as u64;
        self.group.members.push(Member { id, service, memory: service as u64 * GIB, standing });
        self
    }

    /// Ready since, and last used, so many seconds after the beginning.
    fn ready(self, service: usize, since: u32, last_use: u32, is_busy: bool) -> Self {
        let (since, last_use) = (self.start + since * SECOND, self.start + last_use * SECOND);
        self.member(service, Standing::Ready { since, last_use, is_busy, waited_for: None })
    }

    fn want(mut self, service: usize, need: Need, since: u32) -> Self {
        let (since, memory) = (self.start + since * SECOND, service as u64 * GIB);
        self.group.wants.push(Want { service, need, since, count: 1, memory });
        self
    }

    /// What is granted, what is drained, and when to look again, in seconds from the beginning.
    #[track_caller]
    fn check(&self, now: u32, grants: &[usize], drain: &[u64], look_at: Option<u32>) {
        let decision = self.group.decide(self.start + now * SECOND);
        let granted: Vec<usize> = decision.grants.iter().map(|(service, _)| *service).collect();
        assert_eq!((granted.as_slice(), decision.drain.as_slice()), (grants, drain));
        assert_eq!(decision.look_at, look_at.map(|at| self.start + at * SECOND));
    }
}

#[test]
fn who_is_asked_starts_and_the_idle_one_goes() {
    Scene::new(Some(1), None).want(1, Need::First, 0).check(0, &[1], &[], None);
    Scene::new(Some(1), None).ready(1, 0, 5, false).want(2, Need::First, 6).check(6, &[], &[0], None);
    let ends = Scene::new(Some(1), None).member(1, Standing::Ending).want(2, Need::First, 6);
    ends.check(6, &[], &[], None);
}

#[test]
fn the_one_that_was_used_least_recently_goes() {
    let three = || Scene::new(Some(3), None).ready(1, 0, 9, false).ready(2, 0, 4, false).ready(3, 0, 7, false);
    three().want(4, Need::First, 10).check(10, &[], &[1], None);
    three().want(4, Need::First, 10).want(5, Need::First, 11).check(11, &[], &[1, 2], None);
}

#[test]
fn a_busy_one_is_left_alone_for_the_grace() {
    let scene = Scene::new(Some(1), None).ready(1, 0, 5, true).want(2, Need::First, 6);
    scene.check(6, &[], &[], Some(16)); // from when the other was asked
    scene.check(15, &[], &[], Some(16));
    scene.check(16, &[], &[0], None);
    let fresh = Scene::new(Some(1), None).ready(1, 20, 21, true).want(2, Need::First, 6);
    fresh.check(22, &[], &[], Some(30)); // from when it became ready
    let mixed = Scene::new(Some(2), None).ready(1, 0, 5, true).ready(2, 0, 50, false).want(3, Need::First, 6);
    mixed.check(60, &[], &[1], None); // an idle one before a busy one, however long ago its last request ended
}

#[test]
fn one_that_starts_is_never_in_the_way() {
    let scene = Scene::new(Some(1), None).member(1, Standing::Starting).want(2, Need::First, 6);
    scene.check(1000, &[], &[], None);
}

#[test]
fn memory_is_a_budget_too() {
    let scene = || Scene::new(None, Some(10)).ready(3, 0, 1, false).ready(4, 0, 2, false);
    scene().want(3, Need::First, 5).check(5, &[3], &[], None);
    scene().want(5, Need::First, 5).check(5, &[], &[0], None);
    scene().want(8, Need::First, 5).check(5, &[], &[0, 1], None);
    // The small one that was used least recently stays if the large one must go anyway.
    let uneven = Scene::new(None, Some(10)).ready(1, 0, 1, false).ready(8, 0, 2, false);
    uneven.want(9, Need::First, 5).check(5, &[], &[1], None);
}

#[test]
fn nobody_goes_if_that_is_not_enough() {
    let scene = Scene::new(None, Some(10)).ready(2, 0, 1, false).ready(7, 0, 2, true).want(8, Need::First, 5);
    scene.check(6, &[], &[], Some(15));
    scene.check(15, &[], &[1], None);
}

#[test]
fn what_is_free_is_kept_for_the_first() {
    let scene = Scene::new(None, Some(10)).ready(7, 0, 2, true).want(8, Need::First, 5).want(2, Need::First, 6);
    scene.check(6, &[], &[], Some(15));
    let ends = Scene::new(None, Some(10)).member(7, Standing::Ending).want(8, Need::First, 5).want(2, Need::First, 6);
    ends.check(6, &[], &[], None); // eight and two fit beside each other, but not beside the seven that end
    let wide = Scene::new(None, Some(20)).member(7, Standing::Ending).want(14, Need::First, 5).want(2, Need::Kept, 6);
    wide.check(6, &[], &[], None);
}

#[test]
fn what_nobody_waits_for_takes_free_room_only() {
    let full = || Scene::new(Some(1), None).ready(1, 0, 1, false);
    full().want(2, Need::Kept, 5).check(50, &[], &[], None);
    full().want(2, Need::More, 5).check(50, &[], &[0], None);
    let busy = Scene::new(Some(1), None).ready(1, 0, 1, true).want(2, Need::More, 5);
    busy.check(50, &[], &[], None);
    Scene::new(Some(1), None).want(2, Need::Kept, 5).check(50, &[2], &[], None);
}

#[test]
fn those_who_wait_for_longer_are_answered_before_their_instance_goes() {
    let waited_for = |since| {
        let mut scene = Scene::new(Some(1), None);
        let standing = Standing::Ready {
            since: scene.start,
            last_use: scene.start,
            is_busy: true,
            waited_for: Some(scene.start + since * SECOND),
        };
        scene = scene.member(1, standing);
        scene.want(2, Need::First, 6)
    };
    let before = waited_for(5);
    let decision = before.group.decide(before.start + 60 * SECOND);
    assert!(decision.drain.is_empty());
    assert_eq!(decision.look_at, Some(before.start + 60 * SECOND + BACKLOG_PAUSE));
    waited_for(7).check(60, &[], &[0], None);
}

#[test]
fn a_smaller_budget_is_followed() {
    let scene = Scene::new(Some(1), None).ready(1, 0, 1, false).ready(2, 0, 2, true).ready(3, 0, 3, false);
    scene.check(20, &[], &[0, 2], None);
    let mut scene = Scene::new(Some(1), None).ready(1, 0, 1, true).ready(2, 1, 2, true);
    scene.check(20, &[], &[], Some(30));
    scene.group.over_since = Some(scene.start + 5 * SECOND);
    scene.check(20, &[], &[0], None);
}

#[test]
fn room_beside_is_what_nobody_waits_for() {
    let has_room = |scene: Scene| scene.group.decide(scene.start).has_room(&scene.group.budget, GIB);
    assert!(has_room(Scene::new(Some(2), None).ready(1, 0, 1, true)));
    assert!(!has_room(Scene::new(Some(1), None).ready(1, 0, 1, true)));
    assert!(!has_room(Scene::new(None, Some(10)).ready(2, 0, 1, true).member(5, Standing::Ending).want(
        3,
        Need::First,
        0
    )));
}
