package chat

import (
	"context"
	"io"
	"strings"

	"github.com/a-h/templ"

	"patchbay/internal/console/page"
	"patchbay/internal/plug/learn/markdown"
)

// prose shows a Markdown text of a bot. Its code has a button that copies it.
func prose(v *page.Visit, source string) templ.Component {
	return templ.ComponentFunc(func(ctx context.Context, w io.Writer) error {
		text := markdown.HTML(source)
		if !strings.Contains(text, "<pre>") { // a tag: those in the source are escaped
			_, err := io.WriteString(w, text)
			return err
		}
		var button strings.Builder
		if err := copyButton(v).Render(ctx, &button); err != nil {
			return err
		}
		_, err := strings.NewReplacer("<pre>", `<div class="code">`+button.String()+`<pre tabindex="0">`,
			"</pre>", "</pre></div>").WriteString(w, text)
		return err
	})
}

// settled returns the length of the beginning of a Markdown text that more text does not change:
// whole paragraphs and programs. What it decides wrong, such as a paragraph of a list, is right
// when the answer is complete.
func settled(text string) (n int) {
	fence := ""
	for at := 0; ; {
		length := strings.IndexByte(text[at:], '\n') + 1
		if length == 0 {
			return n
		}
		line := strings.TrimSpace(text[at : at+length])
		at += length
		switch mark := fenceOf(line); {
		case fence != "" && mark == fence:
			fence, n = "", at
		case fence == "" && mark != "":
			fence = mark
		case fence == "" && line == "":
			n = at
		}
	}
}

// fenceOf returns the mark of a line that begins or ends a program (CommonMark 0.31.2 §4.5).
func fenceOf(line string) string {
	for _, mark := range []string{"```", "~~~"} {
		if strings.HasPrefix(line, mark) {
			return mark
		}
	}
	return ""
}

// titleLength is how many characters of its first question a conversation is called by.
const titleLength = 80
