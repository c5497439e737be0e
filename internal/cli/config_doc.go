package cli

import (
	"io"
	"strings"

	"patchbay/internal/config"
	"patchbay/internal/i18n"
)

type configDocCmd struct{}

// Help returns the command's detailed help with examples.
func (configDocCmd) Help() string {
	return `Example:

    patchbay config doc > settings.md`
}

// setting is a configuration key in the JSON output.
type setting struct {
	Key     string `json:"key"`
	Env     string `json:"env"`
	Flag    string `json:"flag"`
	Type    string `json:"type"`
	Default string `json:"default"`
	Range   string `json:"range,omitempty"`
	Secret  bool   `json:"secret,omitempty"`
	Doc     string `json:"doc"`
}

// Run prints the table.
func (c *configDocCmd) Run(sh *shell) error {
	var b strings.Builder
	if err := writeDoc(&b, sh.lang); err != nil {
		return err
	}
	var list []setting
	for _, k := range config.Keys() {
		list = append(list, setting{k.Path, k.Env, k.Flag, string(k.Type), k.Default, k.Range, k.Secret, k.Doc})
	}
	return sh.result(list, func() { sh.printf("%s", b.String()) })
}

const (
	msgDocHead   = i18n.Message("| key | environment | flag | default | meaning |")
	msgDocSecret = i18n.Message(" Secret: can be read from a file, named by `%s`, `%s` or `%s`.")
)

// writeDoc is [config.WriteDoc] in a language.
func writeDoc(w io.Writer, l i18n.Lang) error {
	if l == i18n.English {
		return config.WriteDoc(w)
	}
	return config.WriteDocIn(w, config.DocWords{
		Head: msgDocHead.In(l), Allowed: msgRange.In(l), Secret: msgDocSecret.In(l),
		Text: func(text string) string {
			if translated, ok := i18n.Lookup(l, helpContext+i18n.Message(text)); ok {
				return translated
			}
			return rangeIn(l, translatePhrase(l, text))
		},
	})
}
