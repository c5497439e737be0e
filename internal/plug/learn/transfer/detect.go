package transfer

import (
	"bytes"
	"path"
	"slices"
	"strings"

	"patchbay/internal/plug/learn/transfer/apkg"
)

// ankiNames are the file name extensions of Anki's packages and databases.
var ankiNames = []string{".apkg", ".colpkg", ".anki2", ".anki21"}

var byteOrderMark = []byte("\ufeff")

// Detect determines the format of a file by its name, which may be empty, and by its first bytes;
// 64 KiB are enough. It returns "" for unknown formats.
func Detect(name string, head []byte) string {
	ext := strings.ToLower(path.Ext(strings.ReplaceAll(name, `\`, "/")))
	if bytes.HasPrefix(head, []byte("PK\x03\x04")) || apkg.IsDatabase(head) || slices.Contains(ankiNames, ext) {
		return Anki
	}
	if e := encodingOf(head); e != nil {
		head, _ = e.NewDecoder().Bytes(head) // what the end splits does not matter
	}
	head = bytes.TrimPrefix(head, byteOrderMark)
	trimmed := bytes.TrimSpace(head)
	switch {
	case len(trimmed) > 0 && (trimmed[0] == '{' || trimmed[0] == '['), ext == ".json":
		return detectJSON(trimmed)
	case ext == ".md" || ext == ".markdown":
		return Markdown
	case bytes.IndexByte(head, 0) >= 0 || len(trimmed) == 0 && ext == "":
		return ""
	}
	return detectText(ext, trimmed)
}

// detectJSON distinguishes our JSON from rows by columns that ours does not have. A row's
// embedding, which is long, comes after most of them.
func detectJSON(head []byte) string {
	if bytes.Contains(head, []byte(`"patchbay_learn"`)) {
		return JSON
	}
	for _, column := range []string{"knowledge_points", "knowledge_point_id", "review_schedules", "is_in_review_plan",
		"embedding", "user_id"} {
		if bytes.Contains(head, []byte(`"`+column+`"`)) {
			return Rows
		}
	}
	return JSON
}

func detectText(ext string, head []byte) string {
	first, _, _ := bytes.Cut(head, []byte("\n"))
	header := parseHeader(splitLoosely(string(first)))
	switch {
	case header.index("knowledge_point_id") >= 0 || header.index("user_id") >= 0 && header.question() >= 0:
		return Rows
	case ext == ".csv" || ext == ".tsv" || header.question() >= 0 && header.answer() >= 0:
		return CSV
	}
	if top := (&ankiText{}); top.line(strings.TrimSpace(string(first))) {
		return CSV
	}
	markdown := 0
	for line := range strings.SplitSeq(string(head), "\n") {
		line = strings.TrimSpace(line)
		switch {
		case line == marker || strings.HasPrefix(line, "# ") || strings.HasPrefix(line, "## ") || isQuestion(line) ||
			strings.Contains(line, "::"):
			markdown++
		}
	}
	if markdown > 0 {
		return Markdown
	}
	if bytes.ContainsAny(first, ",;\t") {
		return CSV
	}
	return ""
}
