package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"patchbay/internal/i18n"
)

// content is an MCP content block.
type content struct {
	Type     string
	Text     string
	MIME     string `json:"mimeType"`
	Data     []byte // base64 in JSON; of pictures and sounds
	URI      string
	Resource *struct {
		URI  string
		MIME string `json:"mimeType"`
		Text string
		Blob []byte // base64 in JSON
	}
}

func readContent(raw json.RawMessage) ([]content, error) {
	var blocks []content
	if len(raw) > 0 && json.Unmarshal(raw, &blocks) != nil {
		return nil, i18n.Message("the result cannot be read; --json prints it unchanged").Errorf()
	}
	return blocks, nil
}

// bytes returns the binary data of a block.
func (c *content) bytes() (mime string, data []byte) {
	if c.Resource != nil {
		return c.Resource.MIME, c.Resource.Blob
	}
	return c.MIME, c.Data
}

// showContent prints the text of a result, and names what cannot be printed.
func (sh *shell) showContent(blocks []content, structured json.RawMessage, unsaved bool) {
	for _, c := range blocks {
		mime, data := c.bytes()
		switch {
		case len(data) > 0 && unsaved:
			sh.say(msgUnsaved, label(c.Type, mime), len(data))
		case len(data) > 0: // printed when it is saved
		case c.Resource != nil && c.Resource.Text != "":
			sh.text(c.Resource.Text)
		case c.Text != "" || c.Type == "text":
			sh.text(c.Text)
		case c.URI != "":
			sh.printf("[%s]\n", plain(c.URI))
		default:
			sh.printf("[%s]\n", label(c.Type, mime))
		}
	}
	var b bytes.Buffer
	if len(blocks) == 0 && len(structured) > 0 && json.Indent(&b, structured, "", "  ") == nil {
		sh.text(b.String())
	}
}

const msgUnsaved = i18n.Message("[%s, %d bytes; --out FILE saves it]")

// label describes a block.
func label(kind, mime string) string {
	if mime != "" {
		return plain(mime)
	}
	return plain(kind)
}

// text prints a text from outside without terminal control characters.
func (sh *shell) text(text string) {
	if _, ok := terminal(sh.stdout); ok {
		text = plain(text)
	}
	sh.printf("%s", text)
	if !strings.HasSuffix(text, "\n") {
		sh.printf("\n")
	}
}

// save writes the pictures, sounds and files of a result: the first to the given file, the others
// to NAME-2, NAME-3 …
func (sh *shell) save(blocks []content, file string) error {
	n := 0
	for _, c := range blocks {
		mime, data := c.bytes()
		if len(data) == 0 {
			continue
		}
		n++
		name := file
		if n > 1 {
			ext := filepath.Ext(file)
			name = fmt.Sprintf("%s-%d%s", strings.TrimSuffix(file, ext), n, ext)
		}
		if err := os.WriteFile(name, data, 0o644); err != nil {
			return err
		}
		fmt.Fprintf(sh.stderr, "%s: %s, %d bytes\n", name, label(c.Type, mime), len(data))
	}
	if n == 0 {
		return i18n.Message("the result holds no picture, sound or file, so %s was not written").Errorf(file)
	}
	return nil
}
