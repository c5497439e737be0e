package test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// notTerms are words for which the glossary has other terms, and notWords others that we do not
// write. Neither the texts of the program nor the pages have them.
var (
	notTerms = []struct{ word, term string }{
		{"语音设备", "语音板"}, {"开发板", "语音板"}, {"验证码", "配对码"}, {"用户码", "配对码"}, {"卡组", "牌组"},
		{"主人", "所有者"}, {"审计", "调用记录"}, {"上游", "工具服务器"}, {"渠道", "通道"}, {"密码匙", "密钥"},
		{"操作员", "操作端"},
	}
	notWords = []struct{ word, term string }{{"您", "你"}, {"旁听", "收听"}, {" Bot ", "机器人"}}
)

// TestChineseTextsUseTheGlossary checks the Chinese texts of the program.
func TestChineseTextsUseTheGlossary(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "internal", "i18n", "translations", "zh.po"))
	if err != nil {
		t.Fatal(err)
	}
	translation, number := false, 0
	for line := range strings.Lines(string(text)) {
		number++
		switch {
		case strings.HasPrefix(line, "msgstr"):
			translation = true
		case !strings.HasPrefix(line, `"`):
			translation = false
		}
		for _, w := range slices.Concat(notTerms, notWords) {
			if translation && strings.Contains(line, w.word) {
				t.Errorf("zh.po:%d has %q; write %s", number, w.word, w.term)
			}
		}
	}
}
