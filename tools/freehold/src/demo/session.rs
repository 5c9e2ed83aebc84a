//! The clients: each sends its stream over a Unix socket and reads as many replies as it sent commands.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;

use anyhow::{Context, Result, bail};

use super::commands::Stream;

/// So much is sent before replies are read, at most half of what a socket takes: neither side can end up
/// waiting for the other with its own buffer full.
const WINDOW: usize = 64 * 1024;

/// Plays each stream over a connection of its own, all at once.
pub fn play(socket: &Path, streams: &[Stream]) -> Result<()> {
    thread::scope(|scope| {
        let clients: Vec<_> = streams
            .iter()
            .map(|stream| scope.spawn(move || client(socket, stream)))
            .collect();
        for client in clients {
            client.join().expect("a client does not panic")?;
        }
        Ok(())
    })
}

/// Sends one command and waits for its reply.
pub fn one(socket: &Path, words: &[&str]) -> Result<()> {
    let mut text = format!("*{}\r\n", words.len());
    for word in words {
        text.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    client(
        socket,
        &Stream {
            bytes: text.into_bytes(),
            commands: 1,
        },
    )
}

/// One thread sends and another reads: the server is never kept waiting by a client that does one at a time.
pub fn client(socket: &Path, stream: &Stream) -> Result<()> {
    let connection = UnixStream::connect(socket).context("cannot connect to the server")?;
    let mut sender = connection
        .try_clone()
        .context("cannot share the connection")?;
    thread::scope(|scope| {
        let sending = scope.spawn(move || {
            stream
                .bytes
                .chunks(WINDOW)
                .try_for_each(|part| sender.write_all(part))
        });
        let mut replies = BufReader::with_capacity(WINDOW, connection);
        for _ in 0..stream.commands {
            read_reply(&mut replies)?;
        }
        sending
            .join()
            .expect("the sender does not panic")
            .context("cannot send to the server")
    })
}

/// Reads one reply and looks no further than whether it is an error. The commands of the demo are answered
/// by lines, numbers and strings only.
fn read_reply(replies: &mut impl BufRead) -> Result<()> {
    let mut line = Vec::new();
    replies
        .read_until(b'\n', &mut line)
        .context("cannot read a reply")?;
    let text = String::from_utf8_lossy(&line);
    let text = text.trim_end();
    match text.split_at_checked(1) {
        Some(("+" | ":", _)) => Ok(()),
        Some(("$", "-1")) => Ok(()),
        Some(("$", length)) => {
            let length: u64 = length
                .parse()
                .with_context(|| format!("odd reply: {text}"))?;
            let copied = std::io::copy(&mut replies.take(length + 2), &mut std::io::sink())?;
            if copied != length + 2 {
                bail!("the server closed the connection inside a reply");
            }
            Ok(())
        }
        Some(("-", error)) => bail!("the server said: {error}"),
        Some(_) => bail!("odd reply: {text}"),
        None => bail!("the server closed the connection"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<()> {
        read_reply(&mut text.as_bytes())
    }

    #[test]
    fn replies_are_read_whole() {
        let mut text = "+OK\r\n:12\r\n$3\r\nabc\r\n$-1\r\n+last\r\n".as_bytes();
        for _ in 0..5 {
            read_reply(&mut text).unwrap();
        }
        assert!(text.is_empty());
    }

    #[test]
    fn errors_are_not_swallowed() {
        assert_eq!(
            read("-ERR no\r\n").unwrap_err().to_string(),
            "the server said: ERR no"
        );
        assert_eq!(
            read("").unwrap_err().to_string(),
            "the server closed the connection"
        );
        assert_eq!(read("*1\r\n").unwrap_err().to_string(), "odd reply: *1");
        assert!(read("$5\r\nab").is_err());
    }
}
