use super::*;

const WHOSE: Whose = Whose { cluster: ClusterId(7), node: NodeId(1), directory: 1 };

/// A directory of its own for each test, gone when the test ends.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("quorate-directory-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Scratch(path)
    }

    /// For a run that begins.
    fn open(&self) -> Result<Directory, DirectoryError> {
        let mut directory = Directory::open(&self.0, WHOSE)?;
        directory.begin();
        Ok(directory)
    }

    /// Why the directory is refused.
    fn refusal(&self) -> String {
        self.open().expect_err("refused").to_string()
    }

    fn replace_in(&self, name: &str, from: &str, to: &str) {
        let path = self.0.join(name);
        let text = fs::read_to_string(&path).expect("readable");
        assert!(text.contains(from), "{text}");
        fs::write(path, text.replace(from, to)).expect("writable");
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn each_start_has_a_number_of_its_own_and_the_incarnation_stays() {
    let scratch = Scratch::new("starts");
    let first = scratch.open().expect("made");
    let incarnation = first.identity().incarnation;
    assert_eq!((first.identity().start_number, first.forgotten()), (1, Forgotten::Nothing));
    drop(first);
    let second = scratch.open().expect("opened");
    assert_eq!((second.identity().start_number, second.forgotten()), (2, Forgotten::Memory));
    assert_eq!(second.identity().incarnation, incarnation);
    assert!(second.wal_path().is_dir() && second.checkpoint_path().is_dir());
}

#[test]
fn a_start_that_fails_before_its_run_begins_leaves_a_clean_stop() {
    let scratch = Scratch::new("fails");
    scratch.open().expect("made").stop_cleanly(0).expect("stopped");
    for number in 2..4 {
        let failed = Directory::open(&scratch.0, WHOSE).expect("opened");
        assert_eq!((failed.identity().start_number, failed.forgotten()), (number, Forgotten::Nothing));
    }
    drop(scratch.open().expect("opened"));
    for _ in 0..2 {
        let failed = Directory::open(&scratch.0, WHOSE).expect("opened");
        assert_eq!(failed.forgotten(), Forgotten::Memory, "it makes no crash undone");
    }
}

#[test]
fn a_clean_stop_is_told_from_a_crash_and_counts_once() {
    let scratch = Scratch::new("clean");
    scratch.open().expect("made").stop_cleanly(0).expect("stopped");
    assert!(!scratch.0.join(PID).exists());
    let second = scratch.open().expect("opened");
    assert_eq!(second.forgotten(), Forgotten::Nothing);
    drop(second);
    assert_eq!(scratch.open().expect("opened").forgotten(), Forgotten::Memory);
}

#[test]
fn how_far_the_log_reached_at_a_clean_stop_is_known_ever_after() {
    let scratch = Scratch::new("log-end");
    assert_eq!(scratch.open().expect("made").identity().log_end, 0);
    scratch.open().expect("opened").stop_cleanly(7 << 32).expect("stopped");
    assert_eq!(scratch.open().expect("opened").identity().log_end, 7 << 32);
    assert_eq!(scratch.open().expect("opened after a crash").identity().log_end, 7 << 32);
}

#[test]
fn a_mark_of_an_earlier_run_does_not_count() {
    let scratch = Scratch::new("mark");
    drop(scratch.open().expect("made"));
    drop(scratch.open().expect("opened"));
    fs::write(scratch.0.join(CLEAN_STOP), "1\n").expect("writable");
    assert_eq!(scratch.open().expect("opened").forgotten(), Forgotten::Memory);
}

#[test]
fn a_machine_restart_is_told_from_a_crash() {
    let scratch = Scratch::new("boot");
    let first = scratch.open().expect("made");
    let other_boot = Identity { boot: "another".to_owned(), ..first.identity().clone() };
    drop(first);
    for name in [IDENTITY, IDENTITY_COPY] {
        fs::write(scratch.0.join(name), other_boot.to_text()).expect("writable");
    }
    // A start that ends before that is known for good does not hide it.
    for _ in 0..2 {
        let mut cut_short = scratch.open().expect("opened");
        assert_eq!(cut_short.forgotten(), Forgotten::Unsynced);
        cut_short.begin();
    }
    let mut settled = scratch.open().expect("opened");
    settled.begin();
    settled.settle().expect("writable");
    drop(settled);
    assert_eq!(scratch.open().expect("opened").forgotten(), Forgotten::Memory);
}

#[test]
fn a_directory_in_use_is_refused_with_its_user() {
    let scratch = Scratch::new("lock");
    let open = scratch.open().expect("made");
    let refusal = scratch.refusal();
    assert!(refusal.contains(&format!("in use by another process (pid {})", std::process::id())), "{refusal}");
    assert!(matches!(Directory::check(&scratch.0, WHOSE), Err(DirectoryError::InUse { .. })));
    drop(open);
    Directory::check(&scratch.0, WHOSE).expect("free again");
}

#[test]
fn checking_makes_nothing() {
    let scratch = Scratch::new("check");
    Directory::check(&scratch.0, WHOSE).expect("nothing against it");
    assert!(!scratch.0.exists());
}

#[test]
fn another_cluster_or_node_is_refused() {
    let scratch = Scratch::new("other");
    drop(scratch.open().expect("made"));
    let refusal =
        Directory::open(&scratch.0, Whose { cluster: ClusterId(8), ..WHOSE }).expect_err("another cluster").to_string();
    assert!(refusal.contains("cluster 0000000000000007, not of 0000000000000008"), "{refusal}");
    let refusal =
        Directory::open(&scratch.0, Whose { node: NodeId(2), ..WHOSE }).expect_err("another node").to_string();
    assert!(refusal.contains("data of node 1, not of node 2"), "{refusal}");
}

#[test]
fn a_newer_format_is_refused_by_name() {
    let scratch = Scratch::new("newer");
    drop(scratch.open().expect("made"));
    scratch.replace_in(IDENTITY, "quorate-directory 1", "quorate-directory 2");
    let refusal = scratch.refusal();
    assert!(refusal.contains("was written by a newer quorate (format 2); this one reads 1"), "{refusal}");
}

#[test]
fn one_damaged_copy_is_survived_and_two_are_refused() {
    let scratch = Scratch::new("damage");
    drop(scratch.open().expect("made"));
    scratch.replace_in(IDENTITY, "start 1", "start 9");
    let second = scratch.open().expect("the copy is whole");
    assert_eq!(second.identity().start_number, 2);
    drop(second);
    scratch.replace_in(IDENTITY, "start 2", "start 9");
    scratch.replace_in(IDENTITY_COPY, "start 2", "start 9");
    let refusal = scratch.refusal();
    assert!(refusal.contains("damaged (the checksum is wrong)"), "{refusal}");
}

#[test]
fn the_later_of_two_writings_counts() {
    let scratch = Scratch::new("between");
    drop(scratch.open().expect("made"));
    let first = fs::read(scratch.0.join(IDENTITY_COPY)).expect("readable");
    drop(scratch.open().expect("opened"));
    fs::write(scratch.0.join(IDENTITY_COPY), first).expect("writable");
    assert_eq!(scratch.open().expect("opened").identity().start_number, 3);
}

#[test]
fn data_without_an_identity_are_not_taken_for_a_new_directory() {
    let scratch = Scratch::new("orphan");
    let open = scratch.open().expect("made");
    fs::write(open.wal_path().join("segment"), "data").expect("writable");
    drop(open);
    fs::remove_file(scratch.0.join(IDENTITY)).expect("there");
    fs::remove_file(scratch.0.join(IDENTITY_COPY)).expect("there");
    assert!(scratch.refusal().contains("holds data but no identity"));
}

#[test]
fn a_directory_is_new_until_it_is_admitted() {
    let scratch = Scratch::new("new");
    assert!(scratch.open().expect("made").is_new());
    let mut second = scratch.open().expect("opened");
    assert!(second.is_new(), "a restart does not admit it");
    second.admit().expect("admitted");
    assert!(!second.is_new());
}

#[test]
fn what_a_start_would_miss_a_check_misses_too() {
    let scratch = Scratch::new("witnesses");
    let check = || Directory::check(&scratch.0, WHOSE);
    check().expect("nothing is there");
    let mut directory = scratch.open().expect("made");
    directory.admit().expect("accepted");
    drop(directory);
    fs::remove_dir(scratch.0.join(CHECKPOINT)).expect("empty");
    for name in WITNESSES {
        let refusal = check().expect_err("it is gone").to_string();
        assert!(refusal.contains(&format!("lacks {name}: the node may have forgotten")), "{refusal}");
        assert_eq!(refusal, scratch.refusal());
        match name {
            CHECKPOINT => fs::create_dir(scratch.0.join(name)).expect("made"),
            file => fs::write(scratch.0.join(file), "").expect("written"),
        }
    }
    check().expect("all is there");
}

#[test]
fn an_admitted_node_without_its_log_or_checkpoints_is_not_taken_for_a_new_one() {
    let scratch = Scratch::new("gone");
    let mut open = scratch.open().expect("made");
    open.admit().expect("admitted");
    drop(open);
    for name in WITNESSES.into_iter().filter(|name| *name != CHECKPOINT) {
        let refusal = scratch.refusal();
        assert!(refusal.contains(&format!("lacks {name}: the node may have forgotten")), "{refusal}");
        fs::write(scratch.0.join(name), "").expect("writable");
    }
    assert!(!scratch.open().expect("all is there").is_new());
}

#[test]
fn a_directory_in_place_of_a_lost_one_has_forgotten_everything_until_that_is_stored() {
    let scratch = Scratch::new("replacement");
    let second = Whose { directory: 2, ..WHOSE };
    let mut made = Directory::open(&scratch.0, second).expect("made");
    made.begin();
    assert_eq!((directory_of(made.identity().start_number), made.forgotten()), (2, Forgotten::Everything));
    assert!(made.identity().start_number > first_start_in(1) + 1_000_000);
    made.stop_cleanly(0).expect("stopped");
    let mut again = Directory::open(&scratch.0, second).expect("opened");
    again.begin();
    assert_eq!(again.forgotten(), Forgotten::Everything, "a clean stop does not make it remember");
    again.settle().expect("stored");
    again.stop_cleanly(0).expect("stopped");
    let third = Directory::open(&scratch.0, second).expect("opened");
    assert_eq!((third.identity().start_number, third.forgotten()), (first_start_in(2) + 2, Forgotten::Nothing));
}

#[test]
fn a_directory_is_not_taken_for_an_earlier_or_a_later_one_of_its_node() {
    let scratch = Scratch::new("other-directory");
    scratch.open().expect("made").admit().expect("admitted");
    let refusal = |directory| {
        let whose = Whose { directory, ..WHOSE };
        Directory::check(&scratch.0, whose).expect_err("refused").to_string()
    };
    assert!(
        refusal(2).contains(
            "is data directory 1 of its node, and node.directory is 2: if it is to be replaced, move it away"
        )
    );
    let scratch = Scratch::new("other-directory");
    Directory::open(&scratch.0, Whose { directory: 2, ..WHOSE }).expect("made").admit().expect("admitted");
    assert!(
        scratch
            .refusal()
            .ends_with("is data directory 2 of its node, and node.directory is 1: set node.directory to what it is")
    );
}

#[test]
fn a_directory_that_nobody_has_accepted_becomes_the_next_one() {
    let scratch = Scratch::new("becomes-next");
    drop(scratch.open().expect("made"));
    let second = Whose { directory: 2, ..WHOSE };
    Directory::check(&scratch.0, second).expect("nothing against it");
    for start in 1..3 {
        let opened = Directory::open(&scratch.0, second).expect("opened");
        assert_eq!(opened.identity().start_number, first_start_in(2) + start - 1);
        assert_eq!((opened.is_new(), opened.forgotten()), (true, Forgotten::Everything));
    }
}
