//! The root file system of the emulated machine: this program, the libraries it needs and kernel modules with all
//! that they depend on, as an archive in cpio's "newc" format.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

/// An archive in the making.
#[derive(Default)]
pub struct Archive {
    bytes: Vec<u8>,
    directories: BTreeSet<PathBuf>,
}

impl Archive {
    /// Puts a file at the absolute path `at`, with the directories that lead there.
    pub fn file(&mut self, at: &Path, content: &[u8]) {
        for parent in at.ancestors().skip(1).collect::<Vec<_>>().into_iter().rev() {
            if parent != Path::new("/") && self.directories.insert(parent.to_owned()) {
                self.entry(parent, 0o040_755, &[]);
            }
        }
        self.entry(at, 0o100_755, content);
    }

    pub fn finish(mut self) -> Vec<u8> {
        self.entry(Path::new("/TRAILER!!!"), 0, &[]);
        self.bytes
    }

    fn entry(&mut self, at: &Path, mode: u32, content: &[u8]) {
        let name = at.to_str().expect("paths here are text").trim_start_matches('/');
        let field = |value: usize| format!("{value:08x}");
        // In order: inode, mode, owner, group, links, time, size, device and its own, length of the name, checksum.
        let fields = [0, mode as usize, 0, 0, 1, 0, content.len(), 0, 0, 0, 0, name.len() + 1, 0];
        self.bytes.extend(b"070701");
        self.bytes.extend(fields.map(field).concat().as_bytes());
        self.bytes.extend(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

/// The modules `wanted` below `root`, each after those it depends on; those that are built into the kernel are
/// left out.
///
/// # Errors
/// The name of the first that is nowhere.
pub fn modules(root: &Path, wanted: &[&str]) -> Result<Vec<PathBuf>, String> {
    let mut all = Vec::new();
    walk(root, &mut all);
    let built_in = std::fs::read_to_string(root.join("modules.builtin")).unwrap_or_default();
    let mut ordered = Vec::new();
    for name in wanted {
        add(&all, &built_in, name, &mut ordered)?;
    }
    Ok(ordered)
}

fn add(all: &[PathBuf], built_in: &str, name: &str, ordered: &mut Vec<PathBuf>) -> Result<(), String> {
    let is = |path: &Path| path.file_name().is_some_and(|file| same_module(&file.to_string_lossy(), name));
    if ordered.iter().any(|path| is(path)) || built_in.lines().any(|line| is(Path::new(line))) {
        return Ok(());
    }
    let path = all.iter().find(|path| is(path)).ok_or_else(|| format!("there is no module {name}"))?;
    let content = module(path).map_err(|e| format!("{}: {e}", path.display()))?;
    for dependency in dependencies(&content) {
        add(all, built_in, &dependency, ordered)?;
    }
    ordered.push(path.clone());
    Ok(())
}

/// `-` and `_` are one in the names of modules.
fn same_module(file: &str, name: &str) -> bool {
    let file = file.trim_end_matches(".xz").trim_end_matches(".zst");
    file.strip_suffix(".ko").is_some_and(|stem| stem.replace('-', "_") == name.replace('-', "_"))
}

/// A module, unpacked.
pub fn module(path: &Path) -> io::Result<Vec<u8>> {
    let unpacker = match path.extension().and_then(|extension| extension.to_str()) {
        Some("xz") => "xz",
        Some("zst") => "zstd",
        _ => return std::fs::read(path),
    };
    let unpacked = std::process::Command::new(unpacker).arg("-dc").arg(path).output()?;
    if unpacked.status.success() {
        Ok(unpacked.stdout)
    } else {
        Err(io::Error::other(format!("{unpacker} fails")))
    }
}

/// What a module says of itself in `depends=`.
fn dependencies(module: &[u8]) -> Vec<String> {
    const WORD: &[u8] = b"\0depends=";
    let Some(at) = module.windows(WORD.len()).position(|window| window == WORD) else { return Vec::new() };
    let list = module[at + WORD.len()..].split(|byte| *byte == 0).next().unwrap_or_default();
    let list = String::from_utf8_lossy(list);
    list.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

fn walk(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => walk(&entry.path(), found),
            _ => found.push(entry.path()),
        }
    }
}

/// The shared libraries of a program, its interpreter included, by the paths under which it looks for them.
pub fn libraries(program: &Path) -> io::Result<Vec<PathBuf>> {
    let listed = std::process::Command::new("ldd").arg(program).output()?;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let paths = listed.split_whitespace().filter(|word| word.starts_with('/'));
    Ok(paths.map(PathBuf::from).collect())
}
