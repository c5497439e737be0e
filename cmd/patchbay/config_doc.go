package main

import (
	"strings"

	"patchbay/internal/config"
)

type configDocCmd struct{}

// Help is the command's examples.
func (configDocCmd) Help() string {
	return `Example:

    patchbay config doc > settings.md`
}

// setting is a key of the configuration as JSON.
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
	if err := config.WriteDoc(&b); err != nil {
		return err
	}
	var list []setting
	for _, k := range config.Keys() {
		list = append(list, setting{k.Path, k.Env, k.Flag, string(k.Type), k.Default, k.Range, k.Secret, k.Doc})
	}
	return sh.result(list, func() { sh.printf("%s", b.String()) })
}
