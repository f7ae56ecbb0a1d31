//! Floods of output.

use crate::harness::{Bed, UNIX, run, run_within, sh};
use pilotlight_supervisor::Exit;
use std::time::Duration;

#[test]
fn a_flood_of_200_mb_neither_blocks_nor_grows_nor_starves() {
    run_within(Duration::from_secs(300), async {
        let flood = "head -c 200000000 /dev/zero | tr '\\0' 'x' | fold -w 99; echo end; exit 7";
        let quick = sh("quick", "exec sleep 1000", UNIX);
        let mut bed = Bed::new(1, vec![sh("flood", flood, UNIX), quick]);
        let before = resident_bytes();
        let lease = bed.service(0).ready(0).await.unwrap();
        lease.instance().mark_answered();
        // Nobody takes lines while it floods.
        let second = bed.service(1);
        let other = tokio::select! {
            other = second.ready(0) => other.unwrap(),
            _ = lease.instance().ended() => panic!("the other service starved until the flood was over"),
        };
        assert_eq!(lease.instance().ended().await.exit, Some(Exit::Code(7)));
        let grown = resident_bytes().saturating_sub(before);
        assert!(grown < 48 << 20, "grew by {grown} bytes");
        drop(other);
        let service = bed.service(0);
        let (mut passed, mut told) = (0, 0);
        while let Ok(line) = bed.log.try_recv() {
            passed += 1;
            told += line.dropped;
        }
        let all = 200_000_000_u64.div_ceil(99); // `end` is on the last line, which `fold` does not end
        assert_eq!(passed + service.dropped_lines(), all, "{told} of the dropped were told of");
        assert!(service.dropped_lines() > 1_000_000);
    });
}

#[test]
fn dropped_lines_are_told_of_in_the_next_that_passes_and_long_ones_are_cut() {
    run(async {
        let script = "i=0; while [ $i -lt 3000 ]; do echo $i; i=$((i+1)); done; read -r x < FIFO; \
                      head -c 20000 /dev/zero | tr '\\0' y; echo; exec sleep 1000";
        let fifo = tempfile::tempdir().unwrap();
        let path = fifo.path().join("fifo");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let mut bed = Bed::new(1, vec![sh("h", &script.replace("FIFO", path.to_str().unwrap()), UNIX)]);
        let service = bed.service(0);
        let _lease = service.ready(0).await.unwrap();
        while service.dropped_lines() < 3000 - 1024 {
            tokio::task::yield_now().await;
        }
        for number in 0..1024 {
            assert_eq!(bed.log.recv().await.unwrap().text, number.to_string());
        }
        std::fs::write(&path, "go\n").unwrap();
        let line = bed.log.recv().await.unwrap();
        assert_eq!((line.text.len(), line.cut, line.dropped), (8192, true, 3000 - 1024));
        assert_eq!((line.text.as_str(), line.instance, &*line.service), (&*"y".repeat(8192), 1, "h"));
    });
}

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}
