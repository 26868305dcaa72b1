from svc import Endpoint

@Endpoint(name="w", dependencies=["Pillow", "PyYAML>=6", "scikit_learn", "opencv-python-headless", "google-cloud-storage"])
def w():
    import PIL.Image
    import yaml
    from sklearn import svm
    import cv2
    from google.cloud import storage
    return PIL, yaml, svm, cv2, storage
