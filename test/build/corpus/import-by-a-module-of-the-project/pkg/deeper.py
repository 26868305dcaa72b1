import requests
import w
