# Made with genanki 0.13.1 (Python, MIT licence). Times and ids are fixed.
import genanki, random, os, zlib, struct
os.makedirs('out', exist_ok=True)
AT = 1760000000.0
def png(seed):
    rnd = random.Random(seed)
    rows = b''.join(b'\0' + bytes(rnd.randrange(256) for _ in range(24)) for _ in range(8))
    def chunk(t, d): return struct.pack('>I', len(d)) + t + d + struct.pack('>I', zlib.crc32(t + d))
    return b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', 8, 8, 8, 2, 0, 0, 0)) + chunk(b'IDAT', zlib.compress(rows)) + chunk(b'IEND', b'')
def deck(id, name, notes, description=''):
    d = genanki.Deck(id, name, description)
    for n in notes: d.add_note(n)
    return d
def write(name, decks, media=()):
    p = genanki.Package(decks); p.media_files = list(media)
    p.write_to_file('out/' + name + '.apkg', timestamp=AT)
B, R, C, T, O = (genanki.BASIC_MODEL, genanki.BASIC_AND_REVERSED_CARD_MODEL, genanki.CLOZE_MODEL,
    genanki.BASIC_TYPE_IN_THE_ANSWER_MODEL, genanki.BASIC_OPTIONAL_REVERSED_CARD_MODEL)
N = genanki.Note
write('genanki-basic', deck(1607392319, 'Capitals', [
    N(B, ['Capital of <b>France</b>?', 'Paris'], tags=['europe', 'capital::big']),
    N(B, ['Capital of <i>Peru</i>?<br>(on the coast)', '<div>Lima</div>'], tags=['america']),
    N(B, ['1 &lt; 2 &amp; "3"?', '<ul><li>yes</li><li>of course</li></ul>'], guid='own guid, with "signs" &'),
    N(B, ['<span style="color: red">Styled</span>', '<table><tr><td>a</td><td>b</td></tr></table>'], due=7)],
    'Made with genanki'))
write('genanki-reversed', [deck(1607392320, 'Words', [N(R, ['Hund', 'dog']), N(R, ['Katze', 'cat'], tags=['animal']),
    N(T, ['Baum', 'tree']), N(O, ['Haus', 'house', 'y']), N(O, ['Maus', 'mouse', ''])])])
write('genanki-cloze', [deck(1607392321, 'Science::Physics', [
    N(C, ['{{c1::Light}} travels at {{c2::299,792,458 m/s::speed}}.', 'in vacuum']),
    N(C, ['{{c1::a}} {{c2::b {{c3::nested}}}} {{c1::again}}', '']),
    N(C, ['<b>{{c1::Einstein}}</b>: \\(E = {{c2::mc^2}}\\)', '<i>1905</i>'])])])
files = {'flag é.png': png(1), '旗.png': png(2), 'anthem.mp3': b'ID3\x03\0\0\0\0\0\0' + bytes(range(256)) * 4,
    '_logo.png': png(3), 'unused.png': png(4)}
os.makedirs('media', exist_ok=True)
for n, data in files.items():
    with open('media/' + n, 'wb') as f: f.write(data)
M = genanki.Model(1607392399, 'With logo', fields=[{'name': 'Picture'}, {'name': 'Sound', 'font': 'Arial', 'size': 30}, {'name': 'Notes', 'rtl': True}],
    templates=[{'name': 'See', 'qfmt': '<img src="_logo.png">{{Picture}}', 'afmt': '{{FrontSide}}<hr id=answer>{{Sound}}{{#Notes}}<p>{{Notes}}</p>{{/Notes}}'},
        {'name': 'Hear', 'qfmt': '{{Sound}}{{hint:Notes}}', 'afmt': '{{FrontSide}}<hr id=answer>{{Picture}}'}],
    css='.card { background: url("_logo.png"); }\n.night_mode .card { color: #fff }', sort_field_index=2,
    latex_pre='\\documentclass{article}', latex_post='\\end{document}')
write('genanki-media', [deck(1607392322, 'Flags', [
    N(M, ['<img src="flag é.png">', '[sound:anthem.mp3]', 'France']),
    N(M, ['<img src="旗.png" style="width: 50%">', '[sound:anthem.mp3]', ''], tags=['flag'])])], ['media/' + n for n in files])
write('genanki-latex', [deck(1607392323, 'Maths', [
    N(B, ['[latex]\\int_0^1 x^2\\,dx[/latex]', '[$]\\frac{1}{3}[/$]']),
    N(B, ['\\(a^2 + b^2\\)', '\\[c^2\\]']), N(B, ['[$$]\\sum_{i=1}^n i[/$$]', '\\(\\frac{n(n+1)}{2}\\)'])])])
Z = genanki.Model(1607392398, '汉字', fields=[{'name': '汉字'}, {'name': '拼音'}, {'name': '意思'}],
    templates=[{'name': '认读', 'qfmt': '<div class=h>{{汉字}}</div>', 'afmt': '{{FrontSide}}<hr id=answer>{{furigana:拼音}}<br>{{意思}}'},
        {'name': '听写', 'qfmt': '{{拼音}}<br>{{type:汉字}}', 'afmt': '{{汉字}}'}], css='.h { font-family: "Noto Serif CJK SC"; font-size: 60px }')
write('genanki-chinese', [deck(1607392324, '中文::第一课', [
    N(Z, ['长城', ' 长[cháng] 城[chéng]', 'the <b>Great</b> Wall'], tags=['地理', 'HSK4']),
    N(Z, ['你好', ' 你[nǐ] 好[hǎo]', 'hello']), N(Z, ['𠮷', 'jí', '罕用字 👍🏽'])]),
    deck(1607392325, '中文::第二课', [N(Z, ['谢谢', 'xièxie', 'thanks'])])])
write('genanki-empty-side', [deck(1607392326, 'Gaps', [N(B, ['only a front', '']), N(B, ['a front', 'a back']), N(R, ['one', 'two'])])])
s = N(R, ['suspended', 'card']); s.cards[0].suspend = True
write('genanki-suspended', [deck(1607392327, 'Rest', [s])])
print(os.listdir('out'))
