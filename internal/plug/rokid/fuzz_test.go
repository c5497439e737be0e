package rokid

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

func FuzzParseRequest(f *testing.F) {
	for _, seed := range []string{
		`{"message_id":"1021","agent_id":"1","message":[{"role":"user","type":"text","text":"你好"}]}`,
		`{"message_id":1021,"agent_id":1,"user_id":null,"metadata":{"context":{"lang":"en-US"}},"message":[{"type":"image","text":"https://example.com/image.jpg"}]}`,
		`{"metadata":{"lang":"zh-CN","weather":"a\nb"},"agent_id":"x","user_id":"y","message_id":"1","message":[{"text":"a"},{"role":"agent","text":"b"},{"content":"c"},{"type":"image","image_url":{"url":"data:image/png;base64,AAAA"}}]}`,
		`{"message_id":"1","agent_id":"1","message":{"text":7},"first_round_image":"AAAA"}`,
		`{"message_id":"1","agent_id":"1","message":null,"metadata":[]}`,
		`{"message_id":{},"message":[[]]}`, `[]`, `null`, ``,
		`{"message_id":"\ud800","agent_id":"1","message":[{"text":"\ud800"}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := parseRequest(body)
		if err != nil {
			if _, ok := errors.AsType[*errJSON](err); !ok && !errors.Is(err, errMissing) {
				t.Fatalf("an error that nobody knows: %v", err)
			}
			if len(err.Error()) > 200 {
				t.Fatalf("an error that quotes the body: %v", err)
			}
			return
		}
		switch {
		case r.MessageID == "" || r.AgentID == "":
			t.Fatal("accepted without ids")
		case len(r.MessageID) > maxID || len(r.AgentID) > maxID || len(r.UserID) > maxID:
			t.Fatal("accepted a long id")
		case len(r.Text) > maxText || !utf8.ValidString(r.Text):
			t.Fatalf("text of %d bytes, valid %t", len(r.Text), utf8.ValidString(r.Text))
		case len(r.Images) > maxParts:
			t.Fatalf("%d pictures", len(r.Images))
		case r.Metadata != nil && !json.Valid(r.Metadata):
			t.Fatalf("metadata %q", r.Metadata)
		}
		r.lang("zh")
		spokenCode(r.Text)
	})
}

func FuzzAppendString(f *testing.F) {
	for _, s := range []string{"", "你好", "a\"b\\c\n\r\t\x00\x1f\x7f", "\xff\xfe", "\u2028\u2029",
		"<&>", strings.Repeat("长", 1000)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var back string
		if err := json.Unmarshal(appendString(nil, s), &back); err != nil {
			t.Fatalf("%q became %q: %v", s, appendString(nil, s), err)
		}
		if want := strings.ToValidUTF8(s, "\ufffd"); utf8.ValidString(s) && back != s || len(back) < len(want) {
			t.Fatalf("%q came back as %q", s, back)
		}
	})
}

func TestSpokenCode(t *testing.T) {
	for text, want := range map[string]string{
		"绑定 123456":         "123456",
		"绑定123456。":         "123456",
		"请绑定码：123 456":      "123456",
		"绑定一二三四五六":          "123456",
		"绑定幺两三四五零":          "123450",
		"绑定１２３４５６":          "123456",
		"bind 123456":       "123456",
		"Bind code 123-456": "123456",
		"绑定 12345":          "",
		"绑定 1234567":        "",
		"123456":            "",
		"我要绑定 123456 这个":    "",
		"":                  "",
	} {
		if got := spokenCode(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
