"""Words with tags: CoNLL-U and WikiANN."""

from collections import Counter

import pytest
from labelled_files import put

from interlingua.datamodules.labelled.conll_u import ConllU
from interlingua.datamodules.labelled.examples import Tagged
from interlingua.datamodules.labelled.wikiann import WikiAnn

TREE = """# sent_id = ours-1
# text = Vom alten Fluss
1-2	Vom	_	_	_	_	_	_	_	_
1	Von	von	ADP	_	_	3	case	_	_
2	dem	der	DET	_	_	4	det	_	_
3	alten	alt	ADJ	_	_	4	amod	_	_
3.1	leer	leer	VERB	_	_	_	_	0:root	_
4	Fluss	Fluss	NOUN	_	_	0	root	_	_

# sent_id = ours-2
1	Việt Nam	_	PROPN	_	_	0	root	_	_
2	"	_	PUNCT	_	_	1	punct	_	_


# withheld
1	_	_	NOUN	_	_	0	root	_	_
2	_	_	PUNCT	_	_	1	punct	_	_

1	Fluss	_	_	_	_	0	root	_	_
"""


def test_conll_u(tmp_path):
    """Ranges and empty nodes are no words; a word may hold a space, and a quotation mark is one."""
    file = put(tmp_path / "de_ours-ud-dev.conllu", TREE)
    skipped = Counter()
    assert list(ConllU().read(file, None, skipped)) == [
        Tagged("de", ("Von", "dem", "alten", "Fluss"), ("ADP", "DET", "ADJ", "NOUN")),
        Tagged("de", ("Việt Nam", '"'), ("PROPN", "PUNCT")),
    ]
    assert skipped == Counter({"sentence whose words are withheld": 1, "sentence that has a word without UPOS": 1})
    assert [sentence.language for sentence in ConllU().read(file, "vi", Counter())] == ["vi", "vi"]
    with pytest.raises(
        ValueError, match=r"dev.conllu: it does not say its language; give it, as {en: FILE}, or name it as UD does"
    ):
        list(ConllU().read(put(tmp_path / "dev.conllu", TREE)))


@pytest.mark.parametrize(
    ("line", "match"),
    [
        ("6\tdann\t_\tADV\t_\t_\t0\troot\t_\t_", r"line 9: found word number '6', expected 5; is a line lost, or a blank one"),
        ("5\tdann\t_\tRB\t_\t_\t0\troot\t_\t_", r"line 9, column 4: found 'RB', expected a UPOS, one of ADJ, ADP"),
        ("1 dann _ ADV", r"line 9: found 1 columns, expected 10, between tabs"),
    ],
)
def test_conll_u_faults(tmp_path, line, match):
    file = put(tmp_path / "t.conllu", "\n".join([*TREE.split("\n")[:8], line]))
    with pytest.raises(ValueError, match=match):
        list(ConllU().read(file, "de"))


NAMES = "de:Ada\tB-PER\nde:Lovelace\tI-PER\nde::\tO\nde:um\tO\n\nde:\u200e\tO\nde:Köln\tB-LOC\n"


def test_wikiann(tmp_path):
    file = put(tmp_path / "dev", NAMES)
    assert list(WikiAnn().read(file)) == [
        Tagged("de", ("Ada", "Lovelace", ":", "um"), ("B-PER", "I-PER", "O", "O")),
        Tagged("de", ("\u200e", "Köln"), ("O", "B-LOC")),
    ]
    with pytest.raises(ValueError, match=r"nothing in it is in 'fr'; give a language that is \(de\)"):
        list(WikiAnn().read(file, "fr"))


def test_wikiann_without_prefix(tmp_path):
    file = put(tmp_path / "dev-de.tsv.gz", NAMES.replace("de:", ""))
    reader = WikiAnn(prefixed=False)
    assert [sentence.words for sentence in reader.read(file, "de")] == [("Ada", "Lovelace", ":", "um"), ("\u200e", "Köln")]
    with pytest.raises(ValueError, match=r"does not say its language; give it, as {en: FILE}, or set `prefixed`"):
        list(reader.read(file))
    with pytest.raises(ValueError, match=r"line 1: found 'de:Ada', and de: before all words"):
        list(reader.read(put(tmp_path / "dev", NAMES), "de"))
    with pytest.raises(ValueError, match=r"line 1: found 'Ada', expected LANGUAGE:WORD, .* set `prefixed: false`"):
        list(WikiAnn().read(file))


def test_tags_that_are_hidden(tmp_path):
    file = put(tmp_path / "test-de.tsv", "Ada\num\n\nKöln\n")
    sentences = list(WikiAnn(prefixed=False).read(file, "de"))
    assert sentences == [Tagged("de", ("Ada", "um"), ("", "")), Tagged("de", ("Köln",), ("",))]


def test_entities_that_begin_with_i(tmp_path):
    """IOB1: B- stands only between neighbours of a type. As IOB2, every entity begins with it."""
    tags = ["I-PER", "I-PER", "B-PER", "I-LOC", "O", "I-LOC"]
    file = put(tmp_path / "t", "".join(f"w\t{tag}\n" for tag in tags))
    skipped = Counter()
    (sentence,) = WikiAnn(prefixed=False, iob1=True).read(file, "en", skipped)
    assert sentence.tags == ("B-PER", "I-PER", "B-PER", "B-LOC", "O", "B-LOC")
    assert skipped == Counter({"noted: entity that begins with I-, read as B-": 3})
    with pytest.raises(ValueError, match=r"t, line 1: found I-PER after O, but in IOB2 an entity begins with B-; set `iob1`"):
        list(WikiAnn(prefixed=False).read(file, "en"))


@pytest.mark.parametrize("line", ["Ada\tPER", "Ada\tB-", "Ada", "Ada\tB-PER\tx", "Ada B-PER"])
def test_lines_that_are_no_word_with_a_tag(tmp_path, line):
    file = put(tmp_path / "t", f"um\tO\n{line}\n")
    with pytest.raises(ValueError, match=r"t, line 2: found .* expected a word, a tab and its tag: O, B-TYPE or I-TYPE"):
        list(WikiAnn(prefixed=False).read(file, "en"))


@pytest.mark.parametrize("word", ["\u200b", "\ufe0f", "\u00ad"])
def test_words_of_which_nothing_can_be_read_are_counted(tmp_path, word):
    tree = put(tmp_path / "en_ours-ud-dev.conllu", f"1\tA\t_\tDET\t_\t_\t0\troot\t_\t_\n2\t{word}\t_\tX\t_\t_\t1\tdep\t_\t_\n")
    names = put(tmp_path / "en.txt", f"en:Ada\tB-PER\nen:{word}\tO\nen:\tO\n")
    for reader, file, count in ((ConllU(), tree, 1), (WikiAnn(), names, 2)):
        skipped = Counter()
        (sentence,) = reader.read(file, "en", skipped)
        assert len(sentence.words) == 1 + count
        assert skipped == Counter({"noted: word of which nothing can be read": count})
