package learn_test

import (
	"bytes"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"patchbay/internal/console/consoletest"
	learning "patchbay/internal/plug/learn"
)

// file returns a form with a file.
func file(t *testing.T, name, text string, fields ...string) (body []byte, kind string) {
	t.Helper()
	var out bytes.Buffer
	w := multipart.NewWriter(&out)
	for i := 0; i+1 < len(fields); i += 2 {
		if err := w.WriteField(fields[i], fields[i+1]); err != nil {
			t.Fatal(err)
		}
	}
	part, err := w.CreateFormFile("file", name)
	if err != nil {
		t.Fatal(err)
	}
	part.Write([]byte(text)) //nolint:errcheck // into memory
	w.Close()                //nolint:errcheck // into memory
	return out.Bytes(), w.FormDataContentType()
}

// send uploads a file as a browser does, with or without JavaScript.
func send(t *testing.T, r *rig, b *consoletest.Browser, script bool, name, text string,
	fields ...string) consoletest.Page {
	t.Helper()
	body, kind := file(t, name, text, fields...)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.URL+"/learn/import", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", kind)
	if script {
		req.Header.Set("HX-Request", "true")
	}
	resp, err := b.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var out bytes.Buffer
	if _, err := out.ReadFrom(resp.Body); err != nil {
		t.Fatal(err)
	}
	return consoletest.Page{Status: resp.StatusCode, Text: out.String(), Header: resp.Header}
}

// Files are imported completely or not at all, and exported again.
func TestFiles(t *testing.T) {
	r := newRig(t)
	b := r.SignedInAs(r.Person)
	const words = "question,answer,tags\nHund?,dog,german\nKatze?,cat,german\n"
	if p := send(t, r, b, false, "words.csv", words, "deck", "German", "dry",
		"1"); !p.Contains("It would import: 2 added", "New decks: German", "The first points, as they were read",
		"<td>Hund?</td><td>dog</td>") {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	if p := send(t, r, b, true, "words.csv", words, "deck", "German"); !p.Contains("Imported: 2 added", "progress") ||
		p.Contains("<html") {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	if p := send(t, r, b, false, "words.csv", words, "deck",
		"German"); !p.Contains("Imported: 0 added, 0 changed, 2 as they were") {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	gbk := "\xcc\xe2\xc4\xbf,\xb4\xf0\xb0\xb8\n\xb7\xa8\xb9\xfa,\xb0\xcd\xc0\xe8\n" // 题目,答案 and 法国,巴黎
	if p := send(t, r, b, false, "gbk.csv", gbk, "dry", "1"); !p.Contains("The file was read as GBK (GB18030)", "法国", "巴黎") {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	bad := "question,answer\nMaus?,mouse\n,nobody asks\n"
	if p := send(t, r, b, true, "more.csv", bad); !p.Contains("Nothing was imported",
		"Rows in which something is wrong (1)", "Row ") {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	if p := send(t, r, b, true, "more.csv", bad, "skip", "1"); !p.Contains("Imported: 1 added") {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	if p := send(t, r, b, false, "empty.csv", ""); p.Status != 422 || !p.Contains("Choose a file that has something in it.") {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	if p := send(t, r, b, false, "x.apkg", "no package"); p.Status != 422 || !p.Contains("The file cannot be read") {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	if p := send(t, r, b, true, "big.csv", strings.Repeat("a,b\n",
		largest/4+100)); p.Status != http.StatusRequestEntityTooLarge || !p.Contains("larger than 4 MiB") {
		t.Fatalf("%d: %.200s", p.Status, p.Text)
	}
	for format, want := range map[string]string{"csv": "Hund?", "md": "Hund?", "json": "patchbay_learn", "apkg": "PK"} {
		if p := b.Get("/learn/export?format=" + format); p.Status != 200 || !p.Contains(want) ||
			!strings.Contains(p.Header.Get("Content-Disposition"), "attachment") {
			t.Errorf("%s: %d %.100s", format, p.Status, p.Text)
		}
	}
	if p := b.Get("/learn/export?format=exe"); p.Status != 422 {
		t.Fatalf("%d", p.Status)
	}
}

// Errors of a file, of its rows and of settings are shown in Chinese to those who read Chinese.
func TestWrongInChinese(t *testing.T) {
	r := newRig(t)
	b := r.SignedInAs(r.Person)
	site, err := url.Parse(r.URL)
	if err != nil {
		t.Fatal(err)
	}
	b.Jar.SetCookies(site, []*http.Cookie{{Name: "patchbay-lang", Value: "zh"}})
	bad := "question,answer\nMaus?,mouse\n,nobody asks\n" + strings.Repeat("x", learning.MaxText+1) + ",long\n"
	for _, script := range []bool{true, false} {
		if p := send(t, r, b, script, "more.csv", bad); !p.Contains("问题是空的", "问题超过 64 KiB") || p.Contains("is empty") ||
			p.Contains("longer than") {
			t.Errorf("with a script %t: %d %s", script, p.Status, p.Text)
		}
	}
	for name, want := range map[string]string{"x.apkg": "这个 Anki 包已损坏：它不是 ZIP 文件，或者缺了结尾", "x.json": "它中途就结束了；复制完整了吗？",
		"x.csv": "却没有写列名的一行"} {
		text := "a,b,c\n"
		if name == "x.json" {
			text = `[{"question"`
		}
		if p := send(t, r, b, false, name, text); p.Status != 422 || !p.Contains("这个文件读不了：", want) ||
			p.Contains("the file cannot be read") {
			t.Errorf("%s: %d %s", name, p.Status, p.Text)
		}
	}
	if p := b.Post("/learn/settings", "weights", strings.Repeat("200,", 20)+"200"); p.Status != 422 ||
		!p.Contains("weights：w0 是 200；要在 0.001 到 100 之间") {
		t.Errorf("%d %s", p.Status, p.Text)
	}
	if p := b.Post("/learn/settings", "day_start", "noon"); p.Status != 422 || !p.Contains("&#34;noon&#34; 不是") {
		t.Errorf("%d %s", p.Status, p.Text)
	}
}
