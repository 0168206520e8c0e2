use std::net::TcpListener;
use std::thread::JoinHandle;

use quorate_front::JobId;
use quorate_resp::{RequestLimits, RequestParser};

use super::*;

/// What an application says on one connection, to one request after the other; then it hangs up.
type Conversation = &'static [&'static [u8]];

/// An application that has these conversations, and a connection to it.
fn meeting(conversations: &'static [Conversation]) -> (Connection, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut application = Application::new("app".into(), ApplicationAddress::Tcp(listener.local_addr().unwrap()));
    application.timeout_ms = 200;
    let said = std::thread::spawn(move || {
        for replies in conversations {
            let (mut stream, _) = listener.accept().unwrap();
            for reply in *replies {
                let length = stream.read(&mut [0; 4096]).unwrap();
                assert!(length > 0, "it was asked {reply:?}");
                stream.write_all(reply).unwrap();
            }
        }
    });
    (Connection::new(application, Arc::default()), said)
}

fn call(only_reads: bool) -> JobCall {
    let mut input = b"*2\r\n$3\r\nadd\r\n$1\r\n1\r\n".to_vec();
    let mut parser = RequestParser::new(RequestLimits::default());
    parser.parse(&mut input).unwrap();
    JobCall { words: Arc::new(parser.arguments(&input).to_request()), only_reads }
}

fn ask(connection: &mut Connection, only_reads: bool) -> Result<Answer, String> {
    let object = Arc::new(b"before".to_vec());
    match connection.call(b"key", Some(&object), &call(only_reads)) {
        Ok(answer) => Ok(answer),
        Err(Failed::OutOfReach(ReplyTree::Error(text)) | Failed::Refused(ReplyTree::Error(text))) => {
            Err(text.replace(&connection.application.address.to_string(), "ADDRESS"))
        }
        Err(failed) => panic!("{failed:?}"),
    }
}

const HELLO: &[u8] = b"+OK\r\n";

#[test]
fn who_takes_no_connection_keeps_nobody_waiting() {
    let path = std::env::temp_dir().join(format!("quorate-application-{}", std::process::id()));
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let full =
        std::iter::repeat_with(|| connect_unix(&path)).take(100_000).take_while(Result::is_ok).collect::<Vec<_>>();
    let refused = connect_unix(&path).unwrap_err();
    assert_eq!(refused.to_string(), "it takes no further connection");
    drop((full, listener));
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn what_nobody_has_asked_for_is_no_answer() {
    let (client, mut application) = UnixStream::pair().unwrap();
    let timeout = Duration::from_secs(5);
    let (parser, input) = (ReplyParser::new(ReplyLimits::default()), Vec::new());
    let mut open = Open { stream: Stream::Unix(client), timeout, parser, input, is_new: false };
    application.write_all(b":2\r\n").unwrap();
    let refused = open.ask(b"*0\r\n").unwrap_err();
    assert_eq!(refused.to_string(), "it says what nobody has asked for");
}

#[test]
fn an_answer_says_what_becomes_of_the_object() {
    let (mut connection, said) = meeting(&[&[
        HELLO,
        b"*1\r\n:7\r\n",
        b"*2\r\n+done\r\n$5\r\nafter\r\n",
        b"*2\r\n%1\r\n$1\r\na\r\n*2\r\n_\r\n#t\r\n$-1\r\n",
        b"-STOCK there is none\r\n",
        b"*1\r\n-STOCK as a reply\r\n",
    ]]);
    let mut ask = || ask(&mut connection, false);
    assert_eq!(ask(), Ok(Answer { reply: ReplyTree::Integer(7), object: None }));
    let after = Some(Some(Arc::new(b"after".to_vec())));
    assert_eq!(ask(), Ok(Answer { reply: ReplyTree::Simple("done".into()), object: after }));
    let tree = ReplyTree::Map(vec![("a".into(), ReplyTree::Array(vec![ReplyTree::Null, ReplyTree::Boolean(true)]))]);
    assert_eq!(ask(), Ok(Answer { reply: tree, object: Some(None) }));
    for text in ["STOCK there is none", "STOCK as a reply"] {
        assert_eq!(ask(), Ok(Answer { reply: ReplyTree::Error(text.into()), object: None }));
    }
    drop(connection);
    said.join().unwrap();
}

#[test]
fn what_an_application_may_not_say_changes_nothing() {
    const SHAPE: &str = "APPLICATION not executed: app answers neither [reply] nor [reply, object], where an object is a string or null";
    let (mut connection, said) = meeting(&[&[
        HELLO,
        b"+OK\r\n",
        b"*0\r\n",
        b"*2\r\n:1\r\n:2\r\n",
        b"*3\r\n:1\r\n$1\r\na\r\n:3\r\n",
        b"*2\r\n:1\r\n$1\r\na\r\n",
    ]]);
    for _ in 0..4 {
        assert_eq!(ask(&mut connection, false), Err(SHAPE.into()));
    }
    let read_only = "APPLICATION not executed: app would change the object, and FCALL_RO only reads: use FCALL";
    assert_eq!(ask(&mut connection, true), Err(read_only.into()));
    drop(connection);
    said.join().unwrap();
}

#[test]
fn an_application_that_does_not_answer_is_told_of() {
    let because = |why: &str| Err(format!("APPLICATION not executed: app at ADDRESS does not answer this node: {why}"));
    let of = |conversations, is_out_of_reach| {
        let (mut connection, said) = meeting(conversations);
        let answer = ask(&mut connection, false);
        assert_eq!(connection.counters.is_out_of_reach.load(Ordering::Relaxed), is_out_of_reach);
        drop(connection);
        said.join().unwrap();
        answer
    };
    assert_eq!(of(&[&[b"-ERR too new\r\n"]], true), because("it refuses this node: ERR too new"));
    // What it says to one call is no reason to give up the others.
    let of = |conversations| of(conversations, false);
    let said = of(&[&[HELLO, b"HTTP/1.1 200\r\n"]]);
    assert_eq!(said, because("it does not speak RESP: the reply begins with 'H', which is no type of RESP"));
    assert_eq!(of(&[&[HELLO, b"*1\r\n:1\r\n*1\r\n:1\r\n"]]), because("it says more than one reply"));
    assert_eq!(of(&[&[HELLO, b"*1\r\n"]]), because("unexpected end of file"));
}

fn job(calls: usize) -> Job {
    Job { id: JobId::default(), application: 0, key: b"key".to_vec(), object: None, calls: vec![call(false); calls] }
}

#[test]
fn a_call_that_is_not_answered_concerns_no_other() {
    // A call on a connection that has been used is tried once more: it may have been closed since.
    let (mut connection, said) =
        meeting(&[&[HELLO, b"*2\r\n:1\r\n$1\r\na\r\n", b"*0"], &[HELLO, b"*0"], &[HELLO, b"*2\r\n:3\r\n$1\r\nc\r\n"]]);
    let worked = connection.work(&job(3));
    assert_eq!((&worked.replies[0], &worked.replies[2]), (&ReplyTree::Integer(1), &ReplyTree::Integer(3)));
    assert!(matches!(&worked.replies[1], ReplyTree::Error(text) if text.contains("unexpected end")), "{worked:?}");
    assert_eq!(worked.object, Some(Arc::new(b"c".to_vec())));
    said.join().unwrap();
}

#[test]
fn an_application_that_is_slow_is_waited_for_as_long_as_it_may_take() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut application = Application::new("app".into(), ApplicationAddress::Tcp(listener.local_addr().unwrap()));
    application.timeout_ms = 50;
    let mut connection = Connection::new(application, Arc::default());
    // Nobody accepts: the greeting is not answered.
    let before = Instant::now();
    let refused = ask(&mut connection, false).unwrap_err();
    assert!(refused.ends_with("app at ADDRESS does not answer this node: no answer within 50 ms"), "{refused}");
    assert!(before.elapsed() >= Duration::from_millis(50));
}

#[test]
fn an_application_that_was_started_again_is_asked_again() {
    let (mut connection, said) = meeting(&[&[HELLO, b"*1\r\n:1\r\n"], &[HELLO, b"*1\r\n:2\r\n"]]);
    assert_eq!(ask(&mut connection, false).map(|answer| answer.reply), Ok(ReplyTree::Integer(1)));
    assert_eq!(ask(&mut connection, false).map(|answer| answer.reply), Ok(ReplyTree::Integer(2)));
    said.join().unwrap();
    assert!(ask(&mut connection, false).is_err_and(|text| text.contains("Connection refused")));
}
