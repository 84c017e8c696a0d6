"""A Hugging Face Space that shows the tree and the surprisals of a sentence.

Make a Space with the SDK Gradio. Upload this file, a wheel of syntaxlm (made by `pip wheel --no-deps .`), and a file
requirements.txt with the name of the wheel and `pandas` on two lines. To try it on your own computer: pip install
gradio pandas, then python app.py.
"""

import gradio as gr

import syntaxlm

MODEL = "en"  # or user/name: your own model on the hub
nlp = syntaxlm.load(MODEL)


def read(sentence):
    """Return the picture of the tree as SVG, and a table of surprisals."""
    if not sentence.strip():
        raise gr.Error("Write a sentence.")
    try:
        picture = nlp.parse(sentence).draw()
        words = nlp.surprisal(sentence).to_dataframe()
    except syntaxlm.InputError as error:
        raise gr.Error(str(error)) from error
    is_word = words["word"] != ""  # the last row is the end of the sentence
    return picture.svg(), words.loc[is_word, ["word", "surprisal_word"]].round(1)


app = gr.Interface(
    read,
    inputs=gr.Textbox(label="Sentence", value="The old man the boats."),
    outputs=[gr.HTML(label="Tree"), gr.Dataframe(label="Surprisal in bits")],
    title=f"{MODEL}: tree and surprisals",
)

if __name__ == "__main__":
    app.launch()
