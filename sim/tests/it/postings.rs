//! Search indexes: wherever they lie, they answer alike, and nothing that befalls their files matters.

use hub::adapters::postings::{KeptPostings, MemoryPostings};
use sim::conformance::postings::answers;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Enough to be kept.
const MANY: usize = 1_000;

/// Folders of whole indexes, oldest first.
fn kept(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut kept: Vec<PathBuf> =
        entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    kept.sort_by_key(|path| std::fs::metadata(path).and_then(|meta| meta.modified()).ok());
    kept
}

#[tokio::test]
async fn an_index_on_disk_answers_as_one_in_memory_does() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("index");
    let postings = KeptPostings::new(folder.clone());
    for count in [0, 1, 300, MANY] {
        let in_memory = answers(&MemoryPostings, count).await;
        assert_eq!(answers(&postings, count).await, in_memory, "{count} built");
        assert_eq!(answers(&postings, count).await, in_memory, "{count} opened");
    }
    assert_eq!(kept(&folder).len(), 2, "the small ones are not worth files");
    let mut open = Vec::new();
    for path in kept(&folder) {
        let files = std::fs::read_dir(&path).unwrap().flatten().map(|entry| entry.path());
        open.extend(files.chain([path]));
    }
    for path in open.iter().chain([&folder]) {
        let mode = std::fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{} is open to others", path.display());
    }
}

#[tokio::test]
async fn an_index_that_is_damaged_foreign_or_half_is_built_again() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("index");
    let postings = KeptPostings::new(folder.clone());
    let right = answers(&postings, MANY).await;
    let place = kept(&folder).remove(0);
    let harm: [(&str, &dyn Fn()); 4] = [
        ("no meta", &|| std::fs::remove_file(place.join("meta.json")).unwrap()),
        ("nonsense", &|| std::fs::write(place.join("meta.json"), "{}").unwrap()),
        ("emptied", &|| {
            for entry in std::fs::read_dir(&place).unwrap().flatten() {
                if entry.path().extension().is_some_and(|end| end != "json") {
                    std::fs::write(entry.path(), "").unwrap();
                }
            }
        }),
        ("a file in its place", &|| {
            std::fs::remove_dir_all(&place).unwrap();
            std::fs::write(&place, "").unwrap();
        }),
    ];
    for (what, harm) in harm {
        harm();
        assert_eq!(answers(&postings, MANY).await, right, "{what}");
        assert!(place.join("meta.json").metadata().is_ok_and(|meta| meta.len() > 2), "{what}");
    }
    // What a process left behind that died while it built.
    let half = folder.join(".tmp-left");
    std::fs::create_dir(&half).unwrap();
    answers(&postings, MANY + 1).await;
    assert!(!half.exists());
}

#[tokio::test]
async fn where_nothing_can_be_kept_or_another_process_builds_search_answers_all_the_same() {
    let right = answers(&MemoryPostings, MANY).await;
    let home = tempfile::tempdir().unwrap();
    let nowhere = KeptPostings::new(home.path().join("no/hub/index"));
    assert_eq!(answers(&nowhere, MANY).await, right);
    std::fs::write(home.path().join("file"), "").unwrap();
    assert_eq!(answers(&KeptPostings::new(home.path().join("file")), MANY).await, right);
    let folder = home.path().join("index");
    std::fs::create_dir(&folder).unwrap();
    let lock = std::fs::File::create(folder.join("lock")).unwrap();
    lock.try_lock().unwrap();
    let postings = KeptPostings::new(folder.clone());
    assert_eq!(answers(&postings, MANY).await, right);
    assert_eq!(kept(&folder), Vec::<PathBuf>::new(), "the other one's turn");
    drop(lock);
    assert_eq!(answers(&postings, MANY).await, right);
    assert_eq!(kept(&folder).len(), 1);
}

#[tokio::test]
async fn only_the_newest_indexes_are_kept() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("index");
    let postings = KeptPostings::new(folder.clone());
    for more in 0..7 {
        answers(&postings, MANY + more).await;
    }
    assert_eq!(kept(&folder).len(), 4);
    // A process that still sees an older catalog makes it again.
    assert_eq!(answers(&postings, MANY).await, answers(&MemoryPostings, MANY).await);
}
