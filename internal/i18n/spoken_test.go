package i18n_test

import (
	"strings"
	"testing"

	"patchbay/internal/i18n"
)

// A phrase is recognized in all languages, however it is written down.
func TestSaid(t *testing.T) {
	const phrase = i18n.Message("quiz me")
	for _, l := range i18n.Languages() {
		for _, text := range []string{phrase.In(l), " " + strings.ToUpper(phrase.In(l)) + "。", phrase.In(l) + "！",
			strings.Join(strings.Split(phrase.In(l), ""), " ")} {
			if !phrase.Said(text) {
				t.Errorf("%q is not recognized", text)
			}
		}
	}
	for _, text := range []string{"", "quiz", "quiz me on rivers", "please quiz me", "ｑｕｉｚ you", "。"} {
		if phrase.Said(text) {
			t.Errorf("%q is recognized", text)
		}
	}
	if !phrase.Said("ｑｕｉｚ　ｍｅ") {
		t.Error("letters of full width are not recognized")
	}
}

// A placeholder stands for anything; it begins and ends where the translation lets it.
func TestSaidWith(t *testing.T) {
	const to, note = i18n.Message("say\x04switch to %s"), i18n.Message("say\x04note: %s")
	for _, l := range i18n.Languages() {
		for _, name := range []string{"Lobster 2", "龙虾", "パロット", "C++"} {
			if got, ok := to.SaidWith(to.In(l, name) + "。"); !ok || got != name {
				t.Errorf("%q names %q, want %q", to.In(l, name), got, name)
			}
		}
	}
	for text, want := range map[string]string{
		"Switch to plan B!": "plan B", "switch together": "", "switch to": "", "switch to …": "",
		"パロットに切り替えて": "パロット", "パロット に 切り替えて。": "パロット", "に切り替えて": "", "切り替えて": "",
	} {
		if got, ok := to.SaidWith(text); got != want || ok != (want != "") {
			t.Errorf("%q names %q, want %q", text, got, want)
		}
	}
	for text, want := range map[string]string{
		"note: E=mc²": "E=mc²", "Note that I am late": "", "notes: none": "", "note": "", "note:": "",
		"メモ：光速は秒速30万キロ。": "光速は秒速30万キロ", "メモ、水はH2O": "水はH2O", "メモリーとは何ですか": "",
		"メモ: 首都は？パリ": "首都は？パリ",
	} {
		if got, ok := note.SaidWith(text); got != want || ok != (want != "") {
			t.Errorf("%q notes %q, want %q", text, got, want)
		}
	}
}

func FuzzSaidWith(f *testing.F) {
	const to = i18n.Message("say\x04switch to %s")
	for _, text := range []string{"switch to x", "xに切り替えて", "切换到", "\xff switch to \xfe", "：%s"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if got, ok := to.SaidWith(text); ok && (got == "" || !strings.Contains(text, got)) {
			t.Fatalf("%q names %q", text, got)
		}
		to.Said(text)
	})
}
