//! Everyday types as arguments: that they compile, and what they are sent as.

#![expect(clippy::needless_borrows_for_generic_args, reason = "borrowed forms are what is tested")]

use std::collections::{BTreeMap, HashMap};

use super::*;
use crate::command::{Pairs, each};

fn texts<'a>(each: impl FnOnce(&mut dyn FnMut(Arg<'a>))) -> String {
    let mut texts = Vec::new();
    each(&mut |arg| texts.push(String::from_utf8_lossy(&arg.to_bytes()).into_owned()));
    texts.join(" ")
}

#[track_caller]
fn one<'a>(arg: impl Into<Arg<'a>>, expected: &str) {
    assert_eq!(String::from_utf8_lossy(&arg.into().to_bytes()), expected);
}

#[track_caller]
fn many<'a>(args: impl Args<'a>, expected: &str) {
    assert_eq!(texts(|push| args.each(push)), expected);
}

#[track_caller]
fn pairs<'a>(pairs: impl Pairs<'a>, expected: &str) {
    assert_eq!(texts(|push| pairs.each_pair(push)), expected);
}

#[test]
fn texts_and_bytes_however_they_are_owned() {
    let (text, bytes) = ("text".to_owned(), b"text".to_vec());
    one("text", "text");
    one(&text, "text");
    one(text.clone(), "text");
    one(&"text", "text");
    one(&&text, "text");
    one(text.clone().into_boxed_str(), "text");
    one(&text.clone().into_boxed_str(), "text");
    one(Arc::<str>::from("text"), "text");
    one(&Arc::<str>::from("text"), "text");
    one(&Rc::<str>::from("text"), "text");
    one(Cow::Borrowed("text"), "text");
    one(Cow::<str>::Owned(text.clone()), "text");
    one(&Cow::Borrowed("text"), "text");
    one('t', "t");
    one(b"text", "text");
    one(&b"text"[..], "text");
    one(&&b"text"[..], "text");
    one(bytes.clone(), "text");
    one(&bytes, "text");
    one(bytes.clone().into_boxed_slice(), "text");
    one(&bytes.clone().into_boxed_slice(), "text");
    one(Arc::<[u8]>::from(&b"text"[..]), "text");
    one(&Arc::<[u8]>::from(&b"text"[..]), "text");
    one(Cow::Borrowed(&b"text"[..]), "text");
    one(&Cow::Borrowed(&b"text"[..]), "text");
    one(Bytes::from_static(b"text"), "text");
    one(&Bytes::from_static(b"text"), "text");
    one(BytesMut::from("text"), "text");
    one(&Arg::from("text"), "text");
}

#[test]
fn numbers_and_truth() {
    one(-7_i8, "-7");
    one(-7_i16, "-7");
    one(-7, "-7");
    one(-7_i64, "-7");
    one(200_u8, "200");
    one(7_u16, "7");
    one(7_u32, "7");
    one(u64::MAX, "18446744073709551615");
    one(7_usize, "7");
    one(0.5_f32, "0.5");
    one(0.5, "0.5");
    one(true, "1");
    one(false, "0");
    one(&7_u8, "7");
    one(&7_usize, "7");
    one(&true, "1");
    one(&0.5, "0.5");
}

#[test]
fn many_of_one_type_or_of_several() {
    let (texts, bytes) = (vec!["a".to_owned(), "b".to_owned()], vec![b"a".to_vec(), b"b".to_vec()]);
    many("a", "a");
    many(7_u8, "7");
    many(&7_i64, "7");
    many(true, "1");
    many(Arc::<str>::from("a"), "a");
    many(Cow::Borrowed("a"), "a");
    many(b"ab", "ab");
    many(b"ab".to_vec(), "ab");
    many(["a", "b"], "a b");
    many(&["a", "b"], "a b");
    many([1, 2], "1 2");
    many(&[1, 2], "1 2");
    many(&[1_u16, 2][..], "1 2");
    many(vec!["a", "b"], "a b");
    many(&vec!["a", "b"], "a b");
    many(&texts, "a b");
    many(&texts[..], "a b");
    many(texts.clone(), "a b");
    many(&bytes, "a b");
    many(bytes, "a b");
    many(vec![Cow::Borrowed("a")], "a");
    many(&[Arc::<str>::from("a")], "a");
    many(VecDeque::from(["a", "b"]), "a b");
    many(BTreeSet::from([2, 1]), "1 2");
    many(&BTreeSet::from(["b".to_owned(), "a".to_owned()]), "a b");
    many(HashSet::from([1]), "1");
    many(&HashSet::from(["a"]), "a");
    many(Some("a"), "a");
    many(None::<i64>, "");
    many((), "");
    many(("a",), "a");
    many(("a", 1, 0.5, true, texts[0].clone()), "a 1 0.5 1 a");
    many((1, "b".to_owned(), b"c", 4_u8, 5_i64, 'f', false, &texts[1]), "1 b c 4 5 f 0 b");
    many(each(texts.iter()), "a b");
    many(each((0..3).map(|id| format!("user:{id}"))), "user:0 user:1 user:2");
    many(each(texts.iter().filter(|text| *text == "b")), "b");
}

#[test]
fn pairs_owned_and_borrowed() {
    let owned = vec![("a".to_owned(), 1), ("b".to_owned(), 2)];
    let (tree, hash) = (BTreeMap::from([("a", 1), ("b", 2)]), HashMap::from([("a".to_owned(), b"x".to_vec())]));
    pairs(("a", 1), "a 1");
    pairs([("a", 1), ("b", 2)], "a 1 b 2");
    pairs(&[("a", 1), ("b", 2)], "a 1 b 2");
    pairs(&[("a", 1), ("b", 2)][..], "a 1 b 2");
    pairs(&owned, "a 1 b 2");
    pairs(&owned[..1], "a 1");
    pairs(owned, "a 1 b 2");
    pairs(&tree, "a 1 b 2");
    pairs(tree, "a 1 b 2");
    pairs(&hash, "a x");
    pairs(hash, "a x");
    pairs(each((1..3).map(|id| (format!("k{id}"), id))), "k1 1 k2 2");
}
