package sim

import (
	"image/color"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/learn/note"
)

var (
	poemDeck     = words{"Poem", "唐诗", "漢詩"}
	wordsDeck    = words{"Words", "单词", "単語"}
	flagsDeck    = words{"Flags", "国旗", "国旗"}
	earDeck      = words{"By ear", "听音程", "音程"}
	formulasDeck = words{"Formulas", "公式", "公式"}
)

const (
	msgWhoseFlag = i18n.Message("Whose flag is this?")
	msgInterval  = i18n.Message("Which interval is this?")
)

// style is that of all types. The characters of words are large.
const style = `.card { font-family: system-ui, sans-serif; font-size: 22px; text-align: center; }
.hanzi { font-size: 64px; line-height: 1.3; }
.cloze { font-weight: bold; color: #c2410c; }
.quiet { opacity: .7; font-size: 16px; }
img { border: 1px solid #8888; border-radius: 6px; }`

// addPoem adds a cloze note: a poem of Li Bai (701–762).
func (d *deck) addPoem() error {
	err := d.addType(note.Type{Name: "Cloze", Cloze: true, CSS: style, Templates: []note.Template{{Name: "Cloze",
		Front: `{{cloze:Text}}`, Back: `{{cloze:Text}}<p class="quiet">{{Extra}}</p>`}}}, "Text", "Extra")
	if err != nil {
		return err
	}
	return d.addNote(d.Poem, "poem", []history{{4, 0}, {5, 0}, {3, 0}, {4, 3}},
		"床前{{c1::明月光}}，疑是{{c2::地上霜}}。<br>举头{{c3::望明月}}，低头{{c4::思故乡}}。", "李白《静夜思》")
}

// addWords adds notes of a type of one's own, each with two cards.
func (d *deck) addWords() error {
	err := d.addType(note.Type{Name: "Word", CSS: style, Templates: []note.Template{
		{Name: "Read", Front: `<div class="hanzi">{{Hanzi}}</div>`, Back: backWith("{{Pinyin}}", "<b>{{Meaning}}</b>")},
		{Name: "Write", Front: "{{Meaning}}", Back: backWith(`<div class="hanzi">{{Hanzi}}</div>`, "{{Pinyin}}")},
	}}, "Hanzi", "Pinyin", "Meaning")
	if err != nil {
		return err
	}
	for i, w := range []struct {
		hanzi, pinyin string
		meaning       words
	}{
		{"月亮", "yuèliang", words{"the moon", "moon", "月"}},
		{"故乡", "gùxiāng", words{"home town", "home town", "故郷"}},
		{"图书馆", "túshūguǎn", words{"library", "library", "図書館"}},
		{"眼镜", "yǎnjìng", words{"glasses", "glasses", "メガネ"}},
		{"厨房", "chúfáng", words{"kitchen", "kitchen", "台所"}},
		{"记得", "jìde", words{"to remember", "to remember", "覚えている"}},
		{"忘记", "wàngjì", words{"to forget", "to forget", "忘れる"}},
		{"明天", "míngtiān", words{"tomorrow", "tomorrow", "明日"}},
	} {
		d.Readings[w.hanzi] = w.pinyin + " " + w.meaning.in(d.o.Lang)
		d.Readings[w.meaning.in(d.o.Lang)] = w.hanzi + " " + w.pinyin
		histories := []history{{3 + i%3, 2 + i}, {2 + i%4, 4 + 2*i}}
		if i < 3 {
			histories[0].due = 0
		}
		if err := d.addNote(d.Words, "chinese", histories, w.hanzi, w.pinyin, w.meaning.in(d.o.Lang)); err != nil {
			return err
		}
	}
	return nil
}

// addFlags adds notes with pictures.
func (d *deck) addFlags() error {
	err := d.addType(note.Type{Name: "Picture", CSS: style, Templates: []note.Template{{Name: "Picture",
		Front: msgWhoseFlag.In(d.o.Lang) + "<p>{{Picture}}</p>",
		Back:  backWith("<b>{{Country}}</b>")}}}, "Picture", "Country")
	if err != nil {
		return err
	}
	blue, white, red := color.RGBA{0, 35, 149, 255}, color.RGBA{255, 255, 255, 255}, color.RGBA{206, 17, 38, 255}
	green, black, gold := color.RGBA{0, 140, 69, 255}, color.RGBA{0, 0, 0, 255}, color.RGBA{255, 205, 0, 255}
	for i, f := range []struct {
		file    string
		country words
		flag    flag
	}{
		{"france", words{"France", "法国", "フランス"}, flag{upright: true, stripes: []color.RGBA{blue, white, red}}},
		{"italy", words{"Italy", "意大利", "イタリア"}, flag{upright: true, stripes: []color.RGBA{green, white, red}}},
		{"ireland", words{"Ireland", "爱尔兰", "アイルランド"},
			flag{upright: true, stripes: []color.RGBA{green, white, {255, 136, 62, 255}}}},
		{"germany", words{"Germany", "德国", "ドイツ"}, flag{stripes: []color.RGBA{black, red, gold}}},
		{"netherlands", words{"the Netherlands", "荷兰", "オランダ"},
			flag{stripes: []color.RGBA{{174, 28, 40, 255}, white, {33, 70, 139, 255}}}},
		{"poland", words{"Poland", "波兰", "ポーランド"}, flag{stripes: []color.RGBA{white, red}}},
		{"ukraine", words{"Ukraine", "乌克兰", "ウクライナ"}, flag{stripes: []color.RGBA{{0, 87, 183, 255}, gold}}},
		{"japan", words{"Japan", "日本", "日本"}, flag{stripes: []color.RGBA{white}, disc: &color.RGBA{188, 0, 45, 255}}},
	} {
		name := "flag-" + f.file + ".png"
		if d.media[name], err = f.flag.png(); err != nil {
			return err
		}
		due := 1 + i
		if i < 2 {
			due = 0
		}
		if err := d.addNote(d.Flags, "flags", []history{{3 + i%3, due}}, picture(name), f.country.in(d.o.Lang)); err != nil {
			return err
		}
	}
	return nil
}

// addIntervals adds notes with sounds, all new.
func (d *deck) addIntervals() error {
	err := d.addType(note.Type{Name: "Sound", CSS: style, Templates: []note.Template{{Name: "Sound",
		Front: msgInterval.In(d.o.Lang) + "<p>{{Sound}}</p>",
		Back:  backWith("<b>{{Interval}}</b>")}}}, "Sound", "Interval")
	if err != nil {
		return err
	}
	for _, s := range []struct {
		file      string
		name      words
		semitones int
	}{
		{"third", words{"a major third", "大三度", "長三度"}, 4}, {"fourth", words{"a perfect fourth", "纯四度", "完全四度"}, 5},
		{"fifth", words{"a perfect fifth", "纯五度", "完全五度"}, 7}, {"octave", words{"an octave", "八度", "オクターブ"}, 12},
	} {
		name := "interval-" + s.file + ".wav"
		if d.media[name], err = interval(s.semitones); err != nil {
			return err
		}
		if err := d.addNote(d.Ear, "music", []history{{}}, sound(name), s.name.in(d.o.Lang)); err != nil {
			return err
		}
	}
	return nil
}

// addFormulas adds notes whose answers are formulas.
func (d *deck) addFormulas() error {
	err := d.addType(note.Type{Name: "Formula", CSS: style, Templates: []note.Template{{Name: "Formula",
		Front: "{{Front}}", Back: backWith("{{Back}}")}}}, "Front", "Back")
	if err != nil {
		return err
	}
	for i, f := range []struct {
		name    words
		formula string
	}{
		{words{"Euler's identity", "欧拉恒等式", "オイラーの等式"}, `\(e^{i\pi}+1=0\)`},
		{words{"The roots of \\(ax^2+bx+c\\)", "\\(ax^2+bx+c\\) 的根", "\\(ax^2+bx+c\\) の根"},
			`\(x=\frac{-b\pm\sqrt{b^2-4ac}}{2a}\)`},
		{words{"The area of a circle", "圆的面积", "円の面積"}, `\(A=\pi r^2\)`},
		{words{"The sum from 1 to n", "1 到 n 的和", "1 から n までの和"}, `\(\sum_{k=1}^{n}k=\frac{n(n+1)}{2}\)`},
	} {
		due := 2 * i
		if err := d.addNote(d.Formulas, "maths", []history{{3 + i%2, due}}, f.name.in(d.o.Lang), f.formula); err != nil {
			return err
		}
	}
	return nil
}

// Blanks are what the cards of the poem ask for, in their order.
func Blanks() []string { return []string{"明月光", "地上霜", "望明月", "思故乡"} }
