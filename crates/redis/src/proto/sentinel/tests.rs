use bytes::Bytes;

use super::*;

fn bulk(text: &str) -> Value {
    Value::Bulk(Bytes::copy_from_slice(text.as_bytes()))
}

fn list(words: &[&str]) -> Value {
    Value::Array(words.iter().map(|word| bulk(word)).collect())
}

fn map(words: &[&str]) -> Value {
    Value::Map(words.chunks(2).map(|pair| (bulk(pair[0]), bulk(pair[1]))).collect())
}

fn sentinel(port: u16) -> NodeAddress {
    NodeAddress::tcp("s", port)
}

fn texts(addresses: &[NodeAddress]) -> Vec<String> {
    addresses.iter().map(ToString::to_string).collect()
}

#[track_caller]
fn check_primary(reply: &Value, expected: Result<Option<&str>, &str>) {
    let asked = sentinel(1);
    let found = primary(reply, &Asked::plain(&asked));
    let found = found.map(|address| address.map(|address| address.to_string())).map_err(|error| error.to_string());
    assert_eq!(found.as_ref().map(Option::as_deref).map_err(String::as_str), expected);
}

#[test]
fn the_primary_of_a_name() {
    check_primary(&list(&["10.0.0.1", "6379"]), Ok(Some("10.0.0.1:6379")));
    check_primary(&list(&["fd00::1", "6379"]), Ok(Some("[fd00::1]:6379")));
    check_primary(&list(&["redis.example", "6379"]), Ok(Some("redis.example:6379")));
    check_primary(&Value::Null, Ok(None));
    check_primary(&list(&["10.0.0.1"]), Err("the Sentinel sent array instead of an address"));
    check_primary(&list(&["10.0.0.1", "x"]), Err("the Sentinel sent array instead of an address"));
    check_primary(&list(&["10.0.0.1", "0"]), Err("the Sentinel sent array instead of an address"));
    check_primary(&Value::Integer(1), Err("the Sentinel sent integer instead of an address"));
    check_primary(
        &Value::Error(Bytes::from_static(b"IDONTKNOW no idea")),
        Err("the Sentinel answered: IDONTKNOW no idea"),
    );
}

#[test]
fn replicas_that_are_down_are_left_out() {
    let entry = |port: &'static str, flags: &'static str| ["name", "x", "ip", "10.0.0.1", "port", port, "flags", flags];
    let reply = Value::Array(vec![
        list(&entry("1", "slave")),
        map(&entry("2", "slave")),
        list(&entry("3", "s_down,slave")),
        list(&entry("4", "slave,disconnected")),
        list(&entry("5", "slave,o_down")),
        list(&["name", "no address"]),
    ]);
    let asked = sentinel(1);
    assert_eq!(texts(&replicas(&reply, &Asked::plain(&asked)).unwrap()), ["10.0.0.1:1", "10.0.0.1:2"]);
    assert!(replicas(&Value::Null, &Asked::plain(&asked)).is_err());
}

#[test]
fn a_switch() {
    #[track_caller]
    fn check(message: &str, name: &str, expected: Option<&str>) {
        let asked = sentinel(1);
        let found = switched(message.as_bytes(), name, &Asked::plain(&asked)).map(|address| address.to_string());
        assert_eq!(found.as_deref(), expected, "{message}");
    }
    check("main 10.0.0.1 6379 10.0.0.2 6380", "main", Some("10.0.0.2:6380"));
    check("my main 10.0.0.1 6379 10.0.0.2 6380", "my main", Some("10.0.0.2:6380"));
    check("other 10.0.0.1 6379 10.0.0.2 6380", "main", None);
    check("main 10.0.0.1 6379", "main", None);
    check("main 10.0.0.1 6379 10.0.0.2 x", "main", None);
}

#[test]
fn who_answers_is_asked_first() {
    let [one, two, three, four] = [1, 2, 3, 4].map(sentinel);
    let mut order = Order::new(&[one.clone(), two.clone(), three.clone()]);
    order.answered(&three);
    assert_eq!(texts(&order.addresses()), ["s:3", "s:1", "s:2"]);
    order.failed(&three);
    assert_eq!(texts(&order.addresses()), ["s:1", "s:2", "s:3"]);
    order.failed(&four);
    order.learn(&one, &[four.clone(), two.clone()]);
    assert_eq!(texts(&order.addresses()), ["s:1", "s:2", "s:3", "s:4"]);
    order.answered(&four);
    // The learnt one is gone, the configured ones stay.
    order.learn(&one, &[two]);
    assert_eq!(texts(&order.addresses()), ["s:1", "s:2", "s:3"]);
}
