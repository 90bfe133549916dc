//! Reads files whole, within a bound: a path may lead to a device without an end, or to a pipe that nobody writes to.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::Path,
};

/// Most bytes of a file that somebody writes by hand: a secret, a certificate, a configuration.
pub const SMALL_FILE: u64 = 4 << 20;
/// Most bytes of a description in JSON, or a schema.
pub const DESCRIPTION_FILE: u64 = 64 << 20;
/// Most bytes of a file of weights or rows: as many as Protobuf, and so ONNX, allows.
pub const TENSOR_FILE: u64 = 2 << 30;

/// The contents of a regular file of at most `most` bytes. The error does not name the path.
pub fn read_file(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    // Before it is opened: that would wait for the writer of a pipe.
    let found = fs::metadata(path)?;
    let wrong = |problem: String| Err(io::Error::new(io::ErrorKind::InvalidData, problem));
    if !found.is_file() {
        return wrong("is no regular file, expected one".to_owned());
    }
    if found.len() > most {
        let size = found.len();
        return wrong(format!("has {size} bytes, expected at most {most}"));
    }
    read_to_end(path, most, found.len() as usize)
}

/// The text of a file that may also be a pipe, as one that somebody names on a command line: waits for its writer.
pub fn read_text_stream(path: &Path, most: u64) -> io::Result<String> {
    text(read_to_end(path, most, 0)?)
}

fn read_to_end(path: &Path, most: u64, expected: usize) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    content.try_reserve_exact(expected)?;
    // Some files, as in /proc, have more than their size says.
    File::open(path)?.take(most + 1).read_to_end(&mut content)?;
    if content.len() as u64 > most {
        let problem = format!("has more than {most} bytes, expected at most that");
        return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
    }
    Ok(content)
}

/// The same, for text.
pub fn read_text_file(path: &Path, most: u64) -> io::Result<String> {
    text(read_file(path, most)?)
}

fn text(content: Vec<u8>) -> io::Result<String> {
    let text = String::from_utf8(content);
    text.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_up_to_its_bound() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "1234").unwrap();
        assert_eq!(read_text_file(&path, 4).unwrap(), "1234");
        let told = |path: &Path, most| read_file(path, most).unwrap_err().to_string();
        assert_eq!(told(&path, 3), "has 4 bytes, expected at most 3");
        assert_eq!(told(folder.path(), 3), "is no regular file, expected one");
        let missing = read_file(&folder.path().join("other"), 3).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        // As large as it says, and nothing on the disk.
        File::create(&path).unwrap().set_len(1 << 42).unwrap();
        assert_eq!(
            told(&path, TENSOR_FILE),
            "has 4398046511104 bytes, expected at most 2147483648"
        );
        fs::write(&path, [0xff]).unwrap();
        let no_text = read_text_file(&path, 3).unwrap_err().to_string();
        assert!(no_text.contains("invalid utf-8"), "{no_text}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_device_without_an_end_and_a_file_that_hides_its_size_are_refused() {
        let refused = read_file(Path::new("/dev/zero"), 1_000).unwrap_err();
        assert_eq!(refused.to_string(), "is no regular file, expected one");
        let refused = read_text_stream(Path::new("/dev/zero"), 1_000).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "has more than 1000 bytes, expected at most that"
        );
        let refused = read_file(Path::new("/proc/self/maps"), 10).unwrap_err();
        assert!(
            refused.to_string().contains("more than 10 bytes"),
            "{refused}"
        );
    }
}
