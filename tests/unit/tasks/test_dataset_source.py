"""Small files of every kind, as people have them: with copies, holes and odd forms."""

from __future__ import annotations

import gzip
import json
import pickle

import pyarrow
import pyarrow.parquet
import pytest

from gtpo_lit.tasks import ColumnMap, DatasetSource

ROWS = [
    {"question": "How many?", "answer": "Six. #### 6"},
    {"question": "How many?", "answer": "Six. #### 6"},  # an exact duplicate
    {"question": "How many?", "answer": "It is 6. #### 6.0"},  # the same answer
    {"question": "How many?", "answer": "#### 7"},  # the same text, another answer
    {"question": "", "answer": "#### 1"},
    {"question": None, "answer": "#### 1"},
    {"question": "Empty?", "answer": ""},
    {"question": "Missing?", "answer": None},
    {"question": "Unusable?", "answer": "#### ?"},
    {"question": " Price? ", "answer": "#### $1,080.00"},
]


def write(path, rows=ROWS):
    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    elif path.suffix in (".csv", ".tsv"):
        mark = "," if path.suffix == ".csv" else "\t"
        quoted = [['"%s"' % (value or "") for value in row.values()] for row in rows]
        path.write_text("\n".join(mark.join(cells) for cells in [list(rows[0]), *quoted]))
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet", ".csv", ".tsv"])
def test_rows_are_kept_once_and_all_others_are_counted(suffix, tmp_path, dataset_cache):
    source = DatasetSource("toy", write(tmp_path / f"toy{suffix}"))
    problems = [source.problem(index) for index in range(len(source))]
    assert [(problem.id, problem.question, problem.answer) for problem in problems] == [
        ("toy/0", "How many?", "6"),
        ("toy/3", "How many?", "7"),
        ("toy/9", "Price?", "1080"),
    ]
    assert problems[2].metadata == {"row": 9, "written": "$1,080.00"}
    assert {problem.source for problem in problems} == {"toy"}
    assert source.note().endswith(
        "10 rows read, 2 without a question dropped, 3 without a usable answer dropped, "
        "2 exact duplicates dropped, 3 problems"
    )
    report = source.report
    assert report.rows == sum(
        (report.filtered, report.no_question, report.no_answer, report.duplicates, report.used)
    )


def test_duplicates_can_stay_under_ids_of_their_own(tmp_path, dataset_cache):
    source = DatasetSource("toy", write(tmp_path / "toy.jsonl"), drop_duplicates=False)
    assert [source.problem(index).id for index in range(5)] == [
        f"toy/{row}" for row in (0, 1, 2, 3, 9)
    ]


def test_ids_of_a_file_that_repeat_are_told_apart(tmp_path, dataset_cache):
    rows = [
        {"question": text, "answer": 1.0, "key": key, "from": origin}
        for text, key, origin in (("a", "k", "x"), ("b", "k", "y"), ("c", None, None))
    ]
    columns = ColumnMap(id="key", source="from")
    source = DatasetSource("toy", write(tmp_path / "toy.jsonl", rows), columns=columns)
    problems = [source.problem(index) for index in range(3)]
    assert [problem.id for problem in problems] == ["toy/k", "toy/k#1", "toy/2"]
    assert [problem.source for problem in problems] == ["x", "y", "toy"]
    assert [problem.answer for problem in problems] == ["1"] * 3


def test_filters_prefixes_and_limit(tmp_path, dataset_cache):
    rows = [
        {"question": f"Solve: {n}+{n}? Go.", "answer": 2 * n, "level": n % 3, "kind": "ab"[n % 2]}
        for n in range(12)
    ]
    path = write(tmp_path / "toy.jsonl", rows)
    source = DatasetSource(
        "toy",
        path,
        keep={"level": [1, "2"]},
        drop={"kind": ["b"]},
        question_prefix="Solve: ",
        question_suffix=" Go.",
        limit=3,
    )
    got = [(source.problem(at).question, source.problem(at).answer) for at in range(len(source))]
    assert got == [("2+2?", "4"), ("4+4?", "8"), ("8+8?", "16")]
    assert source.report.filtered == 6
    with pytest.raises(ValueError, match=r"keep.lvl: there is no column 'lvl'; the columns are qu"):
        len(DatasetSource("toy", path, keep={"lvl": [1]}))


def test_csv_cells_are_taken_letter_by_letter(tmp_path, dataset_cache):
    (tmp_path / "toy.csv").write_text(
        "question,answer\na,025_8\nb,12345678901234567891\nc,\nd,1e5\ne,NA\n"
    )
    source = DatasetSource("toy", str(tmp_path / "toy.csv"))
    answers = [source.problem(at).answer for at in range(len(source))]
    assert answers == ["025_8", "12345678901234567891", "1e5", "NA"]


def test_a_column_of_mixed_types_is_read(tmp_path, dataset_cache):
    rows = [{"question": str(n), "answer": answer} for n, answer in enumerate(["x+1", 12, 27.0])]
    source = DatasetSource("toy", write(tmp_path / "toy.jsonl", rows))
    assert [source.problem(at).answer for at in range(3)] == ["x+1", "12", "27"]


def test_patterns_gzip_and_environment_variables(tmp_path, dataset_cache, monkeypatch):
    write(tmp_path / "part-1.jsonl", ROWS[:2])
    write(tmp_path / "part-2.jsonl", ROWS[3:4])
    monkeypatch.setenv("TOY_DATA", str(tmp_path))
    assert len(DatasetSource("toy", "$TOY_DATA/part-*.jsonl")) == 2
    with gzip.open(tmp_path / "toy.jsonl.gz", "wt") as file:
        file.write(json.dumps(ROWS[0]))
    assert len(DatasetSource("toy", "${TOY_DATA}/toy.jsonl.gz", split="test")) == 1


def test_a_changed_file_is_read_again(tmp_path, dataset_cache):
    path = write(tmp_path / "toy.jsonl", ROWS[:1])
    assert DatasetSource("toy", path).problem(0).answer == "6"
    write(tmp_path / "toy.jsonl", ROWS[3:4] + ROWS[:1])
    assert DatasetSource("toy", path).problem(0).answer == "7"


def test_slices_of_a_split(tmp_path, dataset_cache):
    path = write(tmp_path / "toy.jsonl", [{"question": f"{n}?", "answer": n} for n in range(6)])
    source = DatasetSource("toy", path, split="train[2:4]")
    assert [source.problem(at).question for at in range(len(source))] == ["2?", "3?"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"path='\S+toy.jsonl': the file is empty"),
        ('{"question": "a"\n{"que', r"cannot load path='\S+toy.jsonl' .*JSON"),
        ('{"question": "a", "Answer": "1"}\n', r"toy \(\S+\): columns.answer: there is no column "
         "'answer'; the columns are question, Answer"),
        ('{"question": "a", "answer": ""}\n', "toy: .* has no usable row with answer_form = 'auto'"
         ": 1 rows read, 1 without a usable answer dropped, 0 problems"),
        ('{"question": [{"content": "a"}], "answer": "1"}\n', "no usable row .*: 1 rows read, 1 "
         "without a question dropped"),
    ],
)  # fmt: skip
def test_files_without_use_are_errors(text, message, tmp_path, dataset_cache):
    (tmp_path / "toy.jsonl").write_text(text)
    with pytest.raises(ValueError, match=message):
        len(DatasetSource("toy", str(tmp_path / "toy.jsonl")))


def test_paths_and_hub_ids_that_lead_nowhere(tmp_path, dataset_cache):
    (tmp_path / "toy.txt").write_text("x")
    for path, message in [
        (str(tmp_path / "gone.jsonl"), r"path='\S+gone.jsonl': no such file"),
        (str(tmp_path / "toy.txt"), "a local file must end in .jsonl, .json, .parquet, .csv, .tsv"),
        ("$NOT_SET_HERE/a.jsonl", "the environment variable NOT_SET_HERE is not set"),
        ("nobody/nothing", r"cannot load path='nobody/nothing' with config=None, split='train'"),
    ]:
        with pytest.raises(ValueError, match=message):
            len(DatasetSource("toy", path))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"limit": 0}, "limit must be at least 1, got 0"),
        ({"answer_form": "box"}, "answer_form must be one of"),
        ({"name": "a/b"}, "name must be a word without slashes, got 'a/b'"),
    ],
)
def test_bad_options_are_named_before_anything_is_read(options, message):
    with pytest.raises(ValueError, match=message):
        DatasetSource(**{"name": "toy", "path": "gone.jsonl", **options})


def test_reading_waits_for_the_first_problem_and_survives_pickle(tmp_path, dataset_cache):
    path = tmp_path / "toy.jsonl"
    source = DatasetSource("toy", str(path))
    write(path)
    assert len(source) == 3
    assert pickle.loads(pickle.dumps(source)).problem(1) == source.problem(1)
    with pytest.raises(IndexError, match="toy has problems 0 to 2, not 3"):
        source.problem(3)
