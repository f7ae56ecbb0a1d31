//! Commands of modules: what they send word for word, where their keys are, and what real modules answer.

use std::collections::{BTreeSet, HashSet};

use super::live::Live;
use super::newer::{b, with};
use super::words::{Words, check};
use crate::Value;
use crate::command::{Command, Flags};
use crate::commands::modules::*;
use crate::commands::spec;
use crate::commands::words::*;

#[test]
fn json_words() {
    check(Words.json_set("k", "$", "{}"), "JSON.SET k $ {}");
    check(Words.json_set_with("k", "$", "{}", JsonSetOptions::new().nx().xx()), "JSON.SET k $ {} XX");
    check(Words.json_get("k", ()), "JSON.GET k");
    check(Words.json_get("k", ["$.a", "$.b"]), "JSON.GET k $.a $.b");
    check(Words.json_get_with("k", "$", JsonGetOptions::new().indent("  ")), "JSON.GET k INDENT    $");
    check(Words.json_mget(["a", "b"], "$"), "JSON.MGET a b $");
    check(Words.json_mset([("a", "$", "1"), ("b", "$", "2")]), "JSON.MSET a $ 1 b $ 2");
    check(Words.json_arrappend("k", "$.a", ["1", "2"]), "JSON.ARRAPPEND k $.a 1 2");
    check(Words.json_arrinsert("k", "$.a", 0, "1"), "JSON.ARRINSERT k $.a 0 1");
    check(Words.json_arrindex("k", "$.a", "1"), "JSON.ARRINDEX k $.a 1");
    check(Words.json_arrindex_range("k", "$.a", "1", 0, 5), "JSON.ARRINDEX k $.a 1 0 5");
    check(Words.json_arrpop("k"), "JSON.ARRPOP k");
    check(Words.json_arrpop_path_index("k", "$.a", 0), "JSON.ARRPOP k $.a 0");
    check(Words.json_arrtrim("k", "$.a", 0, 5), "JSON.ARRTRIM k $.a 0 5");
    check(Words.json_arrlen_path("k", "$.a"), "JSON.ARRLEN k $.a");
    check(Words.json_numincrby("k", "$.n", 1.5), "JSON.NUMINCRBY k $.n 1.5");
    check(Words.json_nummultby("k", "$.n", 2), "JSON.NUMMULTBY k $.n 2");
    check(Words.json_del("k") + &Words.json_del_path("k", "$.a"), "JSON.DEL kJSON.DEL k $.a");
    check(Words.json_debug_memory("k"), "JSON.DEBUG MEMORY k");
    check(Words.json_merge("k", "$", "{}"), "JSON.MERGE k $ {}");
    check(Words.json_strappend("k", "$.s", "\"x\""), "JSON.STRAPPEND k $.s \"x\"");
    check(Words.json_type_path("k", "$") + &Words.json_toggle("k", "$.b"), "JSON.TYPE k $JSON.TOGGLE k $.b");
}

#[test]
fn search_words() {
    let schema = Schema::new()
        .text("t", TextField::new().weight(5.0).nostem().sortable())
        .tag_as("$.g", "g", TagField::new().separator(';'))
        .numeric("n")
        .words(["SORTABLE"])
        .geo("p")
        .vector("v", VectorField::hnsw("FLOAT32", 3, "L2").attributes([("M", 40)]));
    let options = FtCreateOptions::new().on(IndexOn::Hash).prefix(["a:", "b:"]).stopwords(());
    check(
        Words.ft_create_with("i", schema, options),
        "FT.CREATE i ON HASH PREFIX 2 a: b: STOPWORDS 0 SCHEMA t TEXT WEIGHT 5 NOSTEM SORTABLE \
         $.g AS g TAG SEPARATOR ; n NUMERIC SORTABLE p GEO v VECTOR HNSW 8 TYPE FLOAT32 DIM 3 DISTANCE_METRIC L2 M 40",
    );
    check(Words.ft_alter("i", ["n", "NUMERIC"]), "FT.ALTER i SCHEMA ADD n NUMERIC");
    check(Words.ft_search("i", "hello"), "FT.SEARCH i hello");
    let options = FtSearchOptions::new()
        .filter("n", 1, 5)
        .filter("m", "-inf", "(3")
        .return_fields(["t", "n"])
        .limit(0, 10)
        .asc("n")
        .desc("t")
        .params([("a", "1"), ("b", "2")])
        .withscores()
        .dialect(2);
    check(
        Words.ft_search_with("i", "hello", options),
        "FT.SEARCH i hello WITHSCORES FILTER n 1 5 FILTER m -inf (3 RETURN 2 t n SORTBY t DESC LIMIT 0 10 \
         PARAMS 4 a 1 b 2 DIALECT 2",
    );
    let options = FtAggregateOptions::new()
        .load(["@n"])
        .apply("@n * 2", "m")
        .groupby(["@g"])
        .reduce("COUNT", ())
        .alias("k")
        .reduce("SUM", ["@m"])
        .sort_by([("@k", "DESC")])
        .max(5)
        .filter("@k > 1")
        .limit(0, 3)
        .withcursor()
        .count(100)
        .verbatim();
    check(
        Words.ft_aggregate_with("i", "*", options),
        "FT.AGGREGATE i * VERBATIM LOAD 1 @n APPLY @n * 2 AS m GROUPBY 1 @g REDUCE COUNT 0 AS k REDUCE SUM 1 @m \
         SORTBY 2 @k DESC MAX 5 FILTER @k > 1 LIMIT 0 3 WITHCURSOR COUNT 100",
    );
    check(Words.ft_aggregate_with("i", "*", FtAggregateOptions::new().load_all()), "FT.AGGREGATE i * LOAD *");
    check(Words.ft_cursor_read_count("i", 7, 10), "FT.CURSOR READ i 7 COUNT 10");
    check(Words.ft_profile("i", QueryKind::Search, ["hello", "LIMIT"]), "FT.PROFILE i SEARCH QUERY hello LIMIT");
    check(Words.ft_list(), "FT._LIST");
    check(Words.ft_sugadd_with("k", "hi", 1, FtSugaddOptions::new().incr()), "FT.SUGADD k hi 1 INCR");
    check(Words.ft_sugget_withscores("k", "h"), "FT.SUGGET k h WITHSCORES");
    check(Words.ft_synupdate("i", "g", ["a", "b"]), "FT.SYNUPDATE i g a b");
    check(
        Words.ft_spellcheck_with("i", "q", FtSpellcheckOptions::new().include("d").exclude("e")),
        "FT.SPELLCHECK i q TERMS INCLUDE d TERMS EXCLUDE e",
    );
}

#[test]
fn time_series_words() {
    let options = TsCreateOptions::new().retention(1000).encoding(SeriesEncoding::Compressed).labels([("a", "1")]);
    check(Words.ts_create_with("k", options), "TS.CREATE k RETENTION 1000 ENCODING COMPRESSED LABELS a 1");
    check(Words.ts_add("k", "*", 1.5), "TS.ADD k * 1.5");
    check(Words.ts_add_with("k", 5, 1, TsAddOptions::new().on_duplicate("LAST")), "TS.ADD k 5 1 ON_DUPLICATE LAST");
    check(Words.ts_madd([("a", 1, 2), ("b", 3, 4)]), "TS.MADD a 1 2 b 3 4");
    check(Words.ts_createrule("a", "b", "avg", 1000), "TS.CREATERULE a b AGGREGATION avg 1000");
    let options = TsRangeOptions::new().filter_by_ts([1, 2]).count(5).aggregation("max", 60_000).empty();
    check(
        Words.ts_range_with("k", "-", "+", options),
        "TS.RANGE k - + FILTER_BY_TS 1 2 COUNT 5 AGGREGATION max 60000 EMPTY",
    );
    let options = TsMrangeOptions::new().selected_labels(["a"]).withlabels().groupby("a", "sum");
    check(
        Words.ts_mrange_with("-", "+", ["a=1", "b!="], options),
        "TS.MRANGE - + WITHLABELS FILTER a=1 b!= GROUPBY a REDUCE sum",
    );
    check(Words.ts_mget_with("a=1", TsMgetOptions::new().latest()), "TS.MGET LATEST FILTER a=1");
    check(Words.ts_queryindex("a=1"), "TS.QUERYINDEX a=1");
    check(Words.ts_del("k", 1, 2), "TS.DEL k 1 2");
}

#[test]
fn bloom_words() {
    check(
        Words.bf_reserve_with("k", 0.01, 100, BfReserveOptions::new().expansion(2)),
        "BF.RESERVE k 0.01 100 EXPANSION 2",
    );
    check(
        Words.bf_insert_with("k", ["a", "b"], BfInsertOptions::new().capacity(5).nocreate()),
        "BF.INSERT k CAPACITY 5 NOCREATE ITEMS a b",
    );
    check(Words.bf_madd("k", ["a", "b"]), "BF.MADD k a b");
    check(Words.cf_insertnx("k", ["a"]), "CF.INSERTNX k ITEMS a");
    check(Words.cms_incrby("k", [("a", 1), ("b", 2)]), "CMS.INCRBY k a 1 b 2");
    check(Words.cms_merge("d", ["a", "b"]), "CMS.MERGE d 2 a b");
    check(Words.cms_merge_weights("d", ["a", "b"], [1, 2]), "CMS.MERGE d 2 a b WEIGHTS 1 2");
    check(Words.topk_reserve_size("k", 5, 8, 7, 0.9), "TOPK.RESERVE k 5 8 7 0.9");
    check(Words.topk_list_withcount("k"), "TOPK.LIST k WITHCOUNT");
    check(
        Words.tdigest_merge_with("d", ["a"], TdigestMergeOptions::new().compression(200).overriding()),
        "TDIGEST.MERGE d 1 a COMPRESSION 200 OVERRIDE",
    );
    check(Words.tdigest_trimmed_mean("k", 0.1, 0.9), "TDIGEST.TRIMMED_MEAN k 0.1 0.9");
}

#[test]
fn vector_set_words() {
    check(Words.vadd("k", Vector::values([1.5, 2.0]), "e"), "VADD k VALUES 2 1.5 2 e");
    check(
        Words.vadd_with("k", Vector::fp32("blob"), "e", VaddOptions::new().reduce(3).cas().q8().bin().m(16)),
        "VADD k REDUCE 3 FP32 blob e CAS BIN M 16",
    );
    check(Words.vsim("k", VectorQuery::element("e")), "VSIM k ELE e");
    let options = VsimOptions::new().count(5).filter(".x > 1").filter_ef(100).truth();
    check(
        Words.vsim_withscores_with("k", VectorQuery::values([1, 2]), options),
        "VSIM k VALUES 2 1 2 WITHSCORES COUNT 5 FILTER .x > 1 FILTER-EF 100 TRUTH",
    );
    check(Words.vrandmember_count("k", -3), "VRANDMEMBER k -3");
    check(Words.vlinks_withscores("k", "e"), "VLINKS k e WITHSCORES");
    check(Words.vrange_count("k", "-", "+", 10), "VRANGE k - + 10");
}

#[test]
fn keys_are_where_the_command_has_them() {
    let keys = |name: &str, line: &'static str| {
        let command = Command::raw(name).args(line.split(' ').collect::<Vec<_>>());
        assert_eq!(command.name(), name);
        let found: Vec<_> = command.key_positions().map(|at| line.split(' ').nth(at).unwrap()).collect();
        found.join(" ")
    };
    assert_eq!(keys("JSON.GET", "k $"), "k");
    assert_eq!(keys("JSON.DEBUG MEMORY", "k"), "k");
    assert_eq!(keys("JSON.MGET", "a b c $"), "a b c");
    assert_eq!(keys("JSON.MSET", "a $ 1 b $ 2"), "a b");
    assert_eq!(keys("TS.MADD", "a 1 2 b 3 4"), "a b");
    assert_eq!(keys("TS.CREATERULE", "a b AGGREGATION avg 1"), "a b");
    assert_eq!(keys("TS.MRANGE", "- + FILTER a=1"), "");
    assert_eq!(keys("CMS.MERGE", "d 2 a b WEIGHTS 1 2"), "d a b");
    assert_eq!(keys("TDIGEST.MERGE", "d 1 a"), "d a");
    assert_eq!(keys("FT.SEARCH", "index query"), "");
    assert_eq!(keys("FT.SUGADD", "k text 1"), "k");
    assert_eq!(keys("VSIM", "k ELE e"), "k");
}

#[test]
fn what_reads_is_for_replicas_and_what_writes_is_not() {
    for spec in [&spec::JSON_GET, &spec::FT_SEARCH, &spec::TS_RANGE, &spec::BF_EXISTS, &spec::VSIM, &spec::TOPK_LIST] {
        assert!(spec.flags.has(Flags::READONLY), "{}", spec.name);
    }
    for spec in [&spec::JSON_SET, &spec::FT_CREATE, &spec::TS_ADD, &spec::BF_ADD, &spec::VADD, &spec::FT_CURSOR_READ] {
        assert!(spec.flags.has(Flags::WRITE), "{}", spec.name);
    }
}

#[test]
fn live_json() {
    with("redis-8", |live| {
        live.json_set("d", "$", r#"{"a":[1,2],"s":"x","n":3,"o":{"p":1},"b":true}"#).unwrap();
        assert!(!live.json_set_with("d", "$", "{}", JsonSetOptions::new().nx()).unwrap());
        assert_eq!(live.json_get("d", "$.n").unwrap(), Some(b("[3]")));
        assert_eq!(live.json_get("none", ()).unwrap(), None);
        assert!(live.json_get_with("d", (), JsonGetOptions::new().newline("\n")).unwrap().unwrap().contains(&b'\n'));
        assert_eq!(live.json_mget(["d", "none"], "$.n").unwrap(), [Some(b("[3]")), None]);
        assert_eq!(live.json_arrappend("d", "$.a", ["3", "4"]).unwrap(), [Some(4)]);
        assert_eq!(live.json_arrindex("d", "$.a", "3").unwrap(), [Some(2)]);
        assert_eq!(live.json_arrindex_range("d", "$.a", "3", 0, 1).unwrap(), [Some(-1)]);
        assert_eq!(live.json_arrinsert("d", "$.a", 0, "0").unwrap(), [Some(5)]);
        assert_eq!(live.json_arrpop_path("d", "$.a").unwrap(), [Some(b("4"))]);
        assert_eq!(live.json_arrpop_path_index("d", "$.a", 0).unwrap(), [Some(b("0"))]);
        assert_eq!(live.json_arrtrim("d", "$.a", 0, 1).unwrap(), [Some(2)]);
        assert_eq!(live.json_arrlen_path("d", "$.*").unwrap().iter().flatten().collect::<Vec<_>>(), [&2]);
        assert!(matches!(live.json_numincrby("d", "$.n", 1.5).unwrap(), Value::Bulk(_) | Value::Array(_)));
        assert!(matches!(live.json_nummultby("d", "$.n", 2).unwrap(), Value::Bulk(_) | Value::Array(_)));
        assert_eq!(live.json_objkeys("d").unwrap().unwrap().len(), 5);
        assert_eq!(live.json_objkeys_path("d", "$.o").unwrap(), [Some(vec![b("p")])]);
        assert_eq!((live.json_objlen("d").unwrap(), live.json_objlen("none").unwrap()), (Some(5), None));
        assert_eq!(live.json_objlen_path("d", "$.o").unwrap(), [Some(1)]);
        assert_eq!(live.json_strappend("d", "$.s", "\"y\"").unwrap(), [Some(2)]);
        assert_eq!(live.json_strlen_path("d", "$.s").unwrap(), [Some(2)]);
        assert_eq!(live.json_toggle("d", "$.b").unwrap(), [Some(0)]);
        assert!(live.json_debug_memory("d").unwrap() > 0 && live.json_debug_memory_path("d", "$.n").unwrap()[0] > 0);
        live.json_type("d").unwrap();
        live.json_merge("d", "$", r#"{"n":null}"#).unwrap();
        live.json_mset([("d", "$.s", "1"), ("e", "$", "[7]")]).unwrap();
        assert_eq!(live.json_arrlen("e").unwrap(), Some(1));
        assert_eq!(live.json_arrpop("e").unwrap(), Some(b("7")));
        assert_eq!(live.json_clear_path("d", "$.o").unwrap() + live.json_del_path("d", "$.o").unwrap(), 2);
        assert_eq!(live.json_del("d").unwrap() + live.json_forget("e").unwrap(), 2);
    });
}

fn until_indexed(live: &Live) {
    while live.ft_search("ix", "*").unwrap().total < 2 {
        std::thread::yield_now();
    }
}

#[test]
fn live_search() {
    with("redis-8", |live| {
        use crate::commands::Commands as _;
        let schema = Schema::new()
            .text("t", TextField::new().sortable())
            .numeric("n")
            .tag("g", TagField::new())
            .vector("v", VectorField::flat("FLOAT32", 1, "L2"));
        live.ft_create_with("ix", schema, FtCreateOptions::new().on(IndexOn::Hash).prefix("h:")).unwrap();
        live.hset("h:1", [("t", "hello"), ("n", "5"), ("g", "x"), ("v", "\0\0\0\0")]).unwrap();
        live.hset("h:2", [("t", "hello"), ("n", "7"), ("g", "y")]).unwrap();
        until_indexed(live);
        let found = live.ft_search_with("ix", "hello", FtSearchOptions::new().asc("n").return_fields("n")).unwrap();
        assert_eq!((found.total, &found.documents[0].id, found.documents[0].score), (2, &b("h:1"), None));
        assert_eq!(found.documents[1].fields, [(b("n"), Value::Bulk(b("7")))]);
        let found = live.ft_search_with("ix", "hello", FtSearchOptions::new().withscores().limit(0, 1)).unwrap();
        assert!(found.documents[0].score.unwrap() > 0.0 && found.documents.len() == 1);
        let ids = live.ft_search_with("ix", "hello", FtSearchOptions::new().nocontent()).unwrap();
        assert_eq!(ids.documents.iter().map(|it| it.id.clone()).collect::<BTreeSet<_>>(), [b("h:1"), b("h:2")].into());
        let near = FtSearchOptions::new().params([("q", "\0\0\0\0")]).dialect(2).return_fields(());
        assert_eq!(live.ft_search_with("ix", "*=>[KNN 1 @v $q]", near).unwrap().documents[0].id, b("h:1"));
        assert_eq!(live.ft_search("ix", "nothing").unwrap(), Found { total: 0, documents: vec![] });

        let steps = FtAggregateOptions::new().groupby("@g").reduce("COUNT", ()).alias("k").sort_by([("@g", "DESC")]);
        let rows = live.ft_aggregate_with("ix", "*", steps).unwrap();
        assert_eq!((rows.rows[0][0].clone(), rows.cursor), ((b("g"), Value::Bulk(b("y"))), None));
        let steps = FtAggregateOptions::new().load("@n").withcursor().count(1);
        let first = live.ft_aggregate_with("ix", "*", steps).unwrap();
        assert_eq!(first.rows.len(), 1);
        let second = live.ft_cursor_read("ix", first.cursor.unwrap()).unwrap();
        assert_eq!(second.rows.len(), 1);
        if let Some(cursor @ 1..) = second.cursor {
            live.ft_cursor_del("ix", cursor).unwrap();
        }
        assert!(live.ft_info("ix").unwrap().contains_key(&b("num_docs")));
        assert_eq!(live.ft_list().unwrap(), ["ix"]);
        assert_eq!(live.ft_tagvals("ix", "g").unwrap().len(), 2);
        assert!(live.ft_explain("ix", "hello").unwrap().contains("hello"));
        live.ft_profile("ix", QueryKind::Search, "hello").unwrap();
        live.ft_spellcheck_with("ix", "helo", FtSpellcheckOptions::new().distance(1)).unwrap();
        live.ft_alter("ix", Schema::new().numeric("m")).unwrap();
        live.ft_aliasadd("al", "ix").unwrap();
        live.ft_aliasupdate("al", "ix").unwrap();
        live.ft_aliasdel("al").unwrap();
        live.ft_synupdate("ix", "g1", ["a", "b"]).unwrap();
        assert_eq!(live.ft_syndump("ix").unwrap().get(&b("a")), Some(&vec![b("g1")]));
        assert_eq!(live.ft_dictadd("dict", ["a", "b"]).unwrap(), 2);
        assert_eq!(live.ft_dictdump("dict").unwrap().len(), 2);
        assert_eq!(live.ft_dictdel("dict", ["a", "b"]).unwrap(), 2);
        assert_eq!(live.ft_sugadd("sg", "hello", 1).unwrap(), 1);
        assert_eq!(live.ft_sugget("sg", "he").unwrap(), Some(vec![b("hello")]));
        assert!(live.ft_sugget_withscores("sg", "he").unwrap().unwrap()[0].1 > 0.0);
        let payloads = FtSuggetOptions::new().withpayloads();
        assert_eq!(live.ft_sugget_with("sg", "he", payloads).unwrap(), Some(vec![Some(b("hello")), None]));
        assert_eq!(live.ft_sugget("nothing", "he").unwrap(), None);
        assert_eq!(live.ft_suglen("sg").unwrap(), 1);
        assert!(live.ft_sugdel("sg", "hello").unwrap());
        live.ft_config_get("TIMEOUT").unwrap();
        live.ft_dropindex_dd("ix").unwrap();
    });
}

#[test]
fn live_time_series() {
    with("redis-8", |live| {
        live.ts_create_with("a", TsCreateOptions::new().retention(0).labels([("k", "v")])).unwrap();
        live.ts_create_with("e", TsCreateOptions::new().labels([("k", "v")])).unwrap();
        assert_eq!(live.ts_add("a", 1, 1.5).unwrap(), 1);
        assert_eq!(live.ts_madd([("a", 20, 2.0), ("a", 30, 4.0)]).unwrap(), [20, 30]);
        assert_eq!((live.ts_get("a").unwrap(), live.ts_get("e").unwrap()), (vec![(30, 4.0)], vec![]));
        assert_eq!(live.ts_range("a", "-", 20).unwrap(), [(1, 1.5), (20, 2.0)]);
        assert_eq!(live.ts_revrange_with("a", "-", "+", TsRevrangeOptions::new().count(1)).unwrap(), [(30, 4.0)]);
        let options = TsRangeOptions::new().aggregation("sum", 10).align("-");
        assert_eq!(live.ts_range_with("a", 1, 100, options).unwrap().len(), 3);
        let series = live.ts_mrange_with("-", "+", "k=v", TsMrangeOptions::new().withlabels()).unwrap();
        assert_eq!((&series[0].key, &series[0].labels), (&b("a"), &vec![(b("k"), Some(b("v")))]));
        assert_eq!((series[0].samples.len(), series[1].samples.len()), (3, 0));
        let series =
            live.ts_mrevrange_with("-", "+", "k=v", TsMrevrangeOptions::new().selected_labels(["k", "z"])).unwrap();
        assert_eq!(series[0].labels, [(b("k"), Some(b("v"))), (b("z"), None)]);
        let series =
            live.ts_mrange_with("-", "+", "k=v", TsMrangeOptions::new().withlabels().groupby("k", "sum")).unwrap();
        assert_eq!((&series[0].key, series[0].samples.len()), (&b("k=v"), 3));
        let last = live.ts_mget("k=v").unwrap();
        assert_eq!((&last[0].samples, &last[1].samples), (&vec![(30, 4.0)], &vec![]));
        assert!(live.ts_mget("k=none").unwrap().is_empty());
        assert_eq!(live.ts_queryindex("k=v").unwrap().len(), 2);
        assert!(live.ts_info("a").unwrap().contains_key(&b("totalSamples")));
        assert!(live.ts_incrby("a", 1).unwrap() > 30 && live.ts_decrby("a", 1).unwrap() > 30);
        live.ts_alter_with("a", TsAlterOptions::new().retention(1_000_000)).unwrap();
        live.ts_createrule("a", "e", "avg", 1000).unwrap();
        live.ts_deleterule("a", "e").unwrap();
        live.ts_del("a", 0, 1).unwrap();
    });
}

#[test]
fn live_bloom() {
    with("redis-8", |live| {
        live.bf_reserve("b", 0.01, 100).unwrap();
        assert!(live.bf_add("b", "x").unwrap() && live.bf_exists("b", "x").unwrap());
        assert_eq!(live.bf_madd("b", ["x", "y"]).unwrap(), [false, true]);
        assert_eq!(live.bf_mexists("b", ["x", "z"]).unwrap(), [true, false]);
        assert_eq!(live.bf_insert_with("b", ["q"], BfInsertOptions::new().nocreate()).unwrap(), [true]);
        assert!(live.bf_card("b").unwrap() == 3 && live.bf_info("b").unwrap().contains_key(&b("Capacity")));
        let (at, data) = live.bf_scandump("b", 0).unwrap();
        live.bf_loadchunk("copy", at, data.unwrap()).unwrap();

        live.cf_reserve("c", 100).unwrap();
        assert!(
            live.cf_add("c", "x").unwrap() && !live.cf_addnx("c", "x").unwrap() && live.cf_exists("c", "x").unwrap()
        );
        assert_eq!(live.cf_insert("c", ["x", "y"]).unwrap(), [1, 1]);
        assert_eq!(live.cf_insertnx("c", ["x", "z"]).unwrap(), [0, 1]);
        assert_eq!(live.cf_mexists("c", ["x", "none"]).unwrap(), [true, false]);
        assert!(live.cf_count("c", "x").unwrap() == 2 && live.cf_del("c", "x").unwrap());
        assert!(live.cf_info("c").unwrap().contains_key(&b("Size")));
        let (at, data) = live.cf_scandump("c", 0).unwrap();
        live.cf_loadchunk("copy2", at, data.unwrap()).unwrap();

        live.cms_initbydim("m", 100, 5).unwrap();
        live.cms_initbydim("n", 100, 5).unwrap();
        live.cms_initbyprob("p", 0.01, 0.01).unwrap();
        assert_eq!(live.cms_incrby("m", [("a", 1), ("b", 2)]).unwrap(), [1, 2]);
        live.cms_merge_weights("n", ["m"], [2]).unwrap();
        assert_eq!(live.cms_query("n", ["a", "b"]).unwrap(), [2, 4]);
        assert!(live.cms_info("m").unwrap().contains_key(&b("width")));

        live.topk_reserve_size("t", 2, 8, 7, 0.9).unwrap();
        assert_eq!(live.topk_add("t", ["a", "a", "b"]).unwrap(), [None, None, None]);
        live.topk_incrby("t", [("a", 1)]).unwrap();
        assert_eq!(live.topk_list("t").unwrap()[0], Some(b("a")));
        assert_eq!(live.topk_list_withcount("t").unwrap()[0], (b("a"), 3));
        assert_eq!(live.topk_query("t", ["a", "z"]).unwrap(), [true, false]);
        assert!(live.topk_info("t").unwrap().contains_key(&b("k")));

        live.tdigest_create("td").unwrap();
        assert!(live.tdigest_min("td").unwrap().is_nan());
        live.tdigest_add("td", [1, 2, 3]).unwrap();
        assert_eq!(live.tdigest_quantile("td", [0.5]).unwrap(), [2.0]);
        assert_eq!(live.tdigest_cdf("td", 2).unwrap(), [0.5]);
        assert_eq!((live.tdigest_rank("td", 2).unwrap(), live.tdigest_revrank("td", 2).unwrap()), (vec![1], vec![1]));
        assert_eq!(live.tdigest_byrank("td", [1, 9]).unwrap(), [2.0, f64::INFINITY]);
        assert_eq!(live.tdigest_byrevrank("td", [0, 9]).unwrap(), [3.0, f64::NEG_INFINITY]);
        assert_eq!((live.tdigest_min("td").unwrap(), live.tdigest_max("td").unwrap()), (1.0, 3.0));
        assert_eq!(live.tdigest_trimmed_mean("td", 0, 1).unwrap(), 2.0);
        live.tdigest_merge_with("all", ["td"], TdigestMergeOptions::new().overriding()).unwrap();
        assert!(live.tdigest_info("all").unwrap().contains_key(&b("Compression")));
        live.tdigest_reset("all").unwrap();
    });
}

#[test]
fn live_vector_sets() {
    with("redis-8", |live| {
        assert!(live.vadd("v", Vector::values([1.0, 2.0]), "a").unwrap());
        let options = VaddOptions::new().setattr(r#"{"x":1}"#).ef(100);
        assert!(live.vadd_with("v", Vector::fp32([0, 0, 128, 63, 0, 0, 64, 64].as_slice()), "b", options).unwrap());
        assert_eq!(live.vsim("v", VectorQuery::element("a")).unwrap(), [b("a"), b("b")]);
        let scored = live.vsim_withscores("v", VectorQuery::values([1, 2])).unwrap();
        assert!(scored[0].0 == "a" && scored[0].1 > 0.99);
        let like = live.vsim_withscores_withattribs("v", VectorQuery::element("b")).unwrap();
        let with = |name: &'static str| like.iter().find(|it| it.element == name).unwrap().attributes.clone();
        assert_eq!((with("a"), with("b")), (None, Some(b(r#"{"x":1}"#))));
        let filtered = live.vsim_with("v", VectorQuery::element("a"), VsimOptions::new().filter(".x == 1").count(5));
        assert_eq!(filtered.unwrap(), [b("b")]);
        assert_eq!(live.vemb("v", "a").unwrap().unwrap().len(), 2);
        assert_eq!(live.vemb("v", "none").unwrap(), None);
        live.vemb_raw("v", "a").unwrap();
        let links: HashSet<_> = live.vlinks("v", "a").unwrap().unwrap().concat().into_iter().collect();
        assert_eq!(links, HashSet::from([b("b")]));
        assert_eq!(live.vlinks_withscores("v", "a").unwrap().unwrap().concat()[0].0, b("b"));
        assert!(live.vinfo("v").unwrap().unwrap().contains_key(&b("size")) && live.vinfo("none").unwrap().is_none());
        assert!(live.vsetattr("v", "a", "{}").unwrap());
        assert_eq!(live.vgetattr("v", "none").unwrap(), None);
        assert!(live.vrandmember("v").unwrap().is_some() && live.vrandmember("none").unwrap().is_none());
        assert_eq!(live.vrandmember_count("v", 2).unwrap().len(), 2);
        assert_eq!((live.vcard("v").unwrap(), live.vdim("v").unwrap()), (2, 2));
        assert!(live.vismember("v", "a").unwrap() && live.vrem("v", "a").unwrap());
    });
}

/// A module that is not there.
#[test]
fn live_the_error_says_which_module_is_missing() {
    let server = pilotlight_testkit::Server::start().unwrap();
    let live = Live::new(&server, 3);
    let error = |spec: &'static crate::command::CommandSpec| {
        let Value::Error(text) = live.answer(&Command::new(spec).args(["k", "$"])) else { panic!("an error") };
        crate::Error::answered(spec, crate::ServerError::parse(&text)).to_string()
    };
    for (spec, needs) in [
        (&spec::JSON_GET, "JSON.GET needs the module RedisJSON"),
        (&spec::FT_SEARCH, "FT.SEARCH needs the module RediSearch"),
        (&spec::TS_RANGE, "TS.RANGE needs the module RedisTimeSeries"),
        (&spec::BF_EXISTS, "BF.EXISTS needs the module RedisBloom"),
        (&spec::VISMEMBER, "VISMEMBER needs Redis 8.0.0"),
    ] {
        assert!(error(spec).contains(needs), "{}", error(spec));
    }
}
