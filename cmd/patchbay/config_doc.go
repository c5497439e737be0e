package main

import (
	"io"
	"strings"

	"patchbay/internal/config"
	"patchbay/internal/talk"
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
	write := config.WriteDoc
	if sh.lang == talk.Chinese {
		write = writeDocInChinese
	}
	if err := write(&b); err != nil {
		return err
	}
	var list []setting
	for _, k := range config.Keys() {
		list = append(list, setting{k.Path, k.Env, k.Flag, string(k.Type), k.Default, k.Range, k.Secret, k.Doc})
	}
	return sh.result(list, func() { sh.printf("%s", b.String()) })
}

var (
	sayDocHead   = talk.Say{Zh: "| 设置 | 环境变量 | 参数 | 默认 | 含义 |", En: "| key | environment | flag | default | meaning |"}
	sayDocSecret = talk.Say{
		Zh: "机密：可以从文件读取，文件由 `%s`、`%s` 或 `%s` 指定。",
		En: " Secret: can be read from a file, named by `%s`, `%s` or `%s`.",
	}
)

// writeDocInChinese is [config.WriteDoc] in Chinese.
func writeDocInChinese(w io.Writer) error {
	return config.WriteDocIn(w, config.DocWords{
		Head: sayDocHead.Zh, Allowed: sayRange.Zh, Secret: sayDocSecret.Zh,
		Text: func(text string) string {
			if chinese, ok := chineseHelp()[text]; ok {
				return chinese
			}
			return rangeWords.Replace(phraseInChinese(text))
		},
	})
}
