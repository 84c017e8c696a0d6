# The web app:      docker build -t syntaxlm .  and then  docker run --rm -p 8000:8000 syntaxlm
# Other commands:   docker run --rm -v "$PWD:/data" syntaxlm parse en text.txt
# A build of torch without CUDA makes the image much smaller: --build-arg PIP_EXTRA_INDEX_URL=(address of its index)

FROM python:3.13-slim AS build
ARG PIP_EXTRA_INDEX_URL=""
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python -m venv /opt/syntaxlm
ENV PATH=/opt/syntaxlm/bin:$PATH
WORKDIR /source
# torch first: its layer is large, and stays in the cache when the sources change.
COPY constraints.txt .
RUN pip install --constraint constraints.txt torch
COPY pyproject.toml README.md LICENSE ./
COPY src src
COPY recipes recipes
RUN pip install --constraint constraints.txt ".[draw,plot,serve]"

FROM python:3.13-slim
RUN useradd --create-home syntaxlm && install --directory --owner syntaxlm /data
COPY --from=build /opt/syntaxlm /opt/syntaxlm
# Without a C compiler, PyTorch computes everything; this hides the message about it.
ENV PATH=/opt/syntaxlm/bin:$PATH PYTHONUNBUFFERED=1 SYNTAXLM_NATIVE=0
USER syntaxlm
WORKDIR /data
EXPOSE 8000
HEALTHCHECK --start-period=60s \
  CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/api/health', timeout=5)"]
ENTRYPOINT ["syntaxlm"]
CMD ["serve", "en", "--host", "0.0.0.0"]
