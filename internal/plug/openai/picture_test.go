package openai

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	. "patchbay/internal/plug/openai/openaitest"
	"patchbay/internal/tool"
)

func TestToolPictures(t *testing.T) {
	png := "\x89PNG\r\n\x1a\n"
	webp := "RIFF\x00\x00\x00\x00WEBPVP8 "
	block := func(mime, data string) string {
		return `{"type":"image","mimeType":"` + mime + `","data":"` + base64.StdEncoding.EncodeToString([]byte(data)) +
			`"}`
	}
	uri := func(mime, data string) string {
		return "data:" + mime + ";base64," + base64.StdEncoding.EncodeToString([]byte(data))
	}
	many := strings.Repeat(block("image/png", png)+",", 5) + block("image/webp", webp)
	intro := "What a returned as pictures:"
	tests := []struct {
		name, content string
		change        func(*Settings)
		told          string
		want          []string
	}{
		{"one", `{"type":"text","text":"A map."},` + block("image/png", png), nil,
			"A map.\n[image image/png]", []string{intro, uri("image/png", png)}},
		{"by another name", block("image/jpeg", webp), nil, "[image image/jpeg]",
			[]string{intro, uri("image/webp", webp)}},
		{"too many", many, nil, strings.Repeat("[image image/png]\n", 5) + "[image image/webp]",
			append([]string{intro}, slices.Repeat([]string{uri("image/png", png)}, 4)...)},
		{"too large", block("image/png", png+strings.Repeat("x", maxPicture-len(png)+1)), nil,
			"[image image/png]", nil},
		{"as large as it may be", block("image/png", png+strings.Repeat("x", maxPicture-len(png))), nil,
			"[image image/png]", []string{intro, uri("image/png", png+strings.Repeat("x", maxPicture-len(png)))}},
		{"no picture", block("image/png", "<svg>"), nil, "[image image/png]", nil},
		{"no base64", `{"type":"image","mimeType":"image/png","data":"?"}`, nil, "[image image/png]", nil},
		{"sound", `{"type":"audio","mimeType":"audio/wav","data":"AAAA"}`, nil, "[audio audio/wav]", nil},
		{"unseen", block("image/png", png), func(s *Settings) { s.Images = new(false) }, "[image image/png]", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := startServer(t, calling(Call{ID: "1", Name: "a", Arguments: `{}`}), saying("A lake."))
			box := echoBox("a")
			box.call = func(context.Context, string, string, func(tool.Progress)) (*tool.Result, error) {
				return &tool.Result{Content: []byte("[" + tt.content + "]")}, nil
			}
			newRigWithToolbox(t, s, box, tt.change).mustAsk(t, question("hi"))
			if got := toolResultsIn(t, s, 2); len(got) != 1 || got[0] != tt.told {
				t.Errorf("the model was told %q", got)
			}
			var got []string
			if m := s.Requests()[1].Chat.Messages; m[len(m)-1].Role == "user" {
				for _, p := range m[len(m)-1].Parts() {
					got = append(got, p.Text+p.ImageURL.URL)
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("the model was shown %.200q", got)
			}
		})
	}
}

func TestOnlyTheNewestPicturesAreShown(t *testing.T) {
	two := calling(Call{Name: "a", Arguments: `{"n":1}`}, Call{Name: "a", Arguments: `{"n":2}`})
	s := startServer(t, two, two, two, saying("Done."))
	box := echoBox("a")
	n := atomic.Int32{}
	box.call = func(context.Context, string, string, func(tool.Progress)) (*tool.Result, error) {
		return tool.Picture("image/png", fmt.Appendf(nil, "\x89PNG\r\n\x1a\n%d", n.Add(1))), nil
	}
	newRigWithToolbox(t, s, box, nil).mustAsk(t, question("hi"))
	shown, gone := 0, 0
	for _, m := range s.Requests()[3].Chat.Messages {
		for _, p := range m.Parts() {
			if p.ImageURL.URL != "" {
				shown++
			} else if p.Text == droppedText && m.Role == "user" {
				gone++
			}
		}
	}
	// The first round's message has no picture any more, so its content is one text.
	if shown != 4 || gone != 0 || strings.Count(string(s.Requests()[3].Body), droppedText) != 2 {
		t.Errorf("%d are shown: %s", shown, s.Requests()[3].Body)
	}
}

func TestAModelThatTurnsOutToBeBlind(t *testing.T) {
	s := startServer(t, calling(Call{Name: "a", Arguments: `{}`}),
		Reply{Status: 400, Message: "unknown variant `image_url`, expected `text`"}, saying("I cannot see it."))
	box := echoBox("a")
	box.call = func(context.Context, string, string, func(tool.Progress)) (*tool.Result, error) {
		return tool.Picture("image/png", []byte("\x89PNG\r\n\x1a\n")), nil
	}
	b := newRigWithToolbox(t, s, box, nil)
	if got := b.mustAsk(t, question("hi")).String(); got != `"I cannot see it."` {
		t.Errorf("got %s", got)
	}
	if got := string(s.Requests()[2].Body); strings.Contains(got, "image_url") || !strings.Contains(got, droppedText) ||
		!strings.Contains(b.log.String(), "set images to false") {
		t.Errorf("the third request is %s; the log is %s", got, b.log)
	}
}
